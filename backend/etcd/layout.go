package etcd

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

const defaultPrefix = "/coord"

func cleanPrefix(s string) (string, error) {
	return remote.CleanPath(s, defaultPrefix, "prefix", "would mean another place in a path")
}

// A place's keys. Only entries may be below the first of these prefixes, since
// clients of the concurrency package wait for whatever they find there.
//
//	<prefix>/<dir>/<name>/<lease>-<number>          an entry
//	<prefix>/registers/<dir>/<name>                 the register
//	<prefix>/closing/<dir>/<name>/<lease>-<store>   a large Store in progress
//	<prefix>/withdrawn/<lease>-<number>             bars an entry whose put may still be on its way
type place struct {
	root, dir, name string
	line            string // prefix of the entries, with its slash
}

func (b *Backend) place(p backend.Place) place {
	at := place{root: b.root, dir: p.Kind.Dir(), name: backend.Escape(p.Name)}
	at.line = at.root + "/" + at.dir + "/" + at.name + "/"
	return at
}

func (at place) register() string { return at.root + "/registers/" + at.dir + "/" + at.name }

// closing is the prefix of the markers, with its slash.
func (at place) closing() string { return at.root + "/closing/" + at.dir + "/" + at.name + "/" }

func (b *Backend) withdrawn(name string) string { return b.root + "/withdrawn/" + name }

// decode reads an entry. The value of another kind of client is the data of an
// Exclusive claim.
func decode(prefix string, kv *mvccpb.KeyValue) backend.Entry {
	e := backend.Entry{ID: entryID(prefix, kv), Token: uint64(kv.CreateRevision)}
	r, ok := remote.Decode(kv.Value)
	if !ok {
		e.Claim = backend.Claim{Mode: backend.Exclusive, Data: kv.Value}
		return e
	}
	e.Since = time.UnixMilli(r.Since)
	e.Claim = backend.Claim{
		Mode: parseMode(r.Mode), Weight: r.Weight, Limit: r.Limit, Owner: r.Owner, Data: r.Data,
	}
	return e
}

// parseMode takes what it does not know for the strictest mode.
func parseMode(s string) backend.Mode {
	for m := backend.Exclusive; m <= backend.Presence; m++ {
		if m.String() == s {
			return m
		}
	}
	return backend.Exclusive
}

// entryID names an entry after its key and its create revision: keys are used
// again.
func entryID(prefix string, kv *mvccpb.KeyValue) string {
	return newID(strings.TrimPrefix(string(kv.Key), prefix), kv.CreateRevision)
}

func newID(name string, rev int64) string { return name + "@" + strconv.FormatInt(rev, 10) }

// entryKey is the inverse of entryID. What is no ID names no entry.
func entryKey(prefix, id string) (key string, rev int64) {
	if i := strings.LastIndexByte(id, '@'); i >= 0 {
		if rev, err := strconv.ParseInt(id[i+1:], 10, 64); err == nil && rev > 0 {
			return prefix + id[:i], rev
		}
	}
	return prefix + id, never
}

// never is a revision that no key has. A missing key has 0.
const never = -1

// ours reports whether the name of a key has the form lease-number, both in
// hexadecimal.
func ours(name string) bool {
	lease, number, ok := strings.Cut(name, "-")
	return ok && isHex(lease) && isHex(number)
}

func isHex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdef") == ""
}

// inLine sorts keys by their arrival and leaves out those that are no claims.
func inLine(kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	line := slices.DeleteFunc(slices.Clone(kvs), func(kv *mvccpb.KeyValue) bool { return kv.Lease == 0 })
	slices.SortFunc(line, func(a, b *mvccpb.KeyValue) int {
		return cmp.Or(cmp.Compare(a.CreateRevision, b.CreateRevision), bytes.Compare(a.Key, b.Key))
	})
	return line
}
