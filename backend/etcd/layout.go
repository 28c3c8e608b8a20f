package etcd

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/gocoord/coord/backend"
)

const defaultPrefix = "/coord"

// cleanPrefix brings a prefix into the one form it is used in: a slash before
// every part and none at the end. No parts mean the default.
func cleanPrefix(s string) (string, error) {
	var b strings.Builder
	for part := range strings.SplitSeq(s, "/") {
		switch {
		case part == "":
			continue
		case part == "." || part == "..":
			return "", fmt.Errorf("%w: prefix %q has the part %q, which would mean another place in a path", backend.ErrInvalid, s, part)
		case strings.ContainsFunc(part, unicode.IsControl):
			return "", fmt.Errorf("%w: prefix %q has a control character", backend.ErrInvalid, s)
		}
		b.WriteByte('/')
		b.WriteString(part)
	}
	if b.Len() == 0 {
		return defaultPrefix, nil
	}
	return b.String(), nil
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

// record is the value of an entry.
type record struct {
	Format int    `json:"coord"`
	Mode   string `json:"mode"`
	Weight int64  `json:"weight,omitempty"`
	Limit  int64  `json:"limit,omitempty"`
	Owner  string `json:"owner,omitempty"`
	Data   []byte `json:"data,omitempty"`
	Since  int64  `json:"since,omitempty"` // Unix time in milliseconds
}

const recordFormat = 1

// encode writes a record as encoding/json would, which takes longer than all
// else that a client does to ask for a lock.
func encode(c backend.Claim, since time.Time) string {
	v := make([]byte, 0, 96+len(c.Owner)+2*len(c.Data))
	v = strconv.AppendInt(append(v, `{"coord":`...), recordFormat, 10)
	v = append(append(append(v, `,"mode":"`...), c.Mode.String()...), '"')
	if c.Weight != 0 {
		v = strconv.AppendInt(append(v, `,"weight":`...), c.Weight, 10)
	}
	if c.Limit != 0 {
		v = strconv.AppendInt(append(v, `,"limit":`...), c.Limit, 10)
	}
	if c.Owner != "" {
		v = appendString(append(v, `,"owner":`...), c.Owner)
	}
	if len(c.Data) > 0 {
		v = base64.StdEncoding.AppendEncode(append(v, `,"data":"`...), c.Data)
		v = append(v, '"')
	}
	v = strconv.AppendInt(append(v, `,"since":`...), since.UnixMilli(), 10)
	return string(append(v, '}'))
}

// appendString appends a JSON string.
func appendString(v []byte, s string) []byte {
	special := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	if strings.IndexFunc(s, special) < 0 {
		return append(append(append(v, '"'), s...), '"')
	}
	quoted, _ := json.Marshal(s) // a string always can be
	return append(v, quoted...)
}

// decode reads an entry. The value of another kind of client is the data of an
// Exclusive claim.
func decode(prefix string, kv *mvccpb.KeyValue) backend.Entry {
	e := backend.Entry{ID: entryID(prefix, kv), Token: uint64(kv.CreateRevision)}
	r := record{}
	if !bytes.HasPrefix(kv.Value, []byte(`{"coord":`)) || json.Unmarshal(kv.Value, &r) != nil {
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
