package zookeeper

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

const defaultBase = "/coord"

// cleanBase is remote.CleanPath for base paths, of which ZooKeeper has one for
// itself.
func cleanBase(s string) (string, error) {
	base, err := remote.CleanPath(s, defaultBase, "base path", "ZooKeeper refuses")
	if err == nil && (base == "/zookeeper" || strings.HasPrefix(base, "/zookeeper/")) {
		return "", fmt.Errorf("%w: base path %q is kept by ZooKeeper for itself", backend.ErrInvalid, s)
	}
	return base, err
}

// A Layout says which names the entries get. Whichever it is, entries with
// names of the other one, of Curator, Kazoo and go-zookeeper are honoured.
type Layout string

// The layouts.
const (
	Curator Layout = "curator" // that of Curator and go-zookeeper
	Kazoo   Layout = "kazoo"
)

// A place's nodes:
//
//	<base>/<dir>/<name>/_c_<guid>-<type><number>   an entry
//	<base>/registers/<dir>/<name>                  the register
//	<base>/registers/<dir>/<name>/<guid>           which of the registers of that name it is
type place struct{ line, register string }

func (b *Backend) place(p backend.Place) place {
	name := backend.Escape(p.Name)
	return place{
		line:     b.base + "/" + p.Kind.Dir() + "/" + name,
		register: b.base + "/registers/" + p.Kind.Dir() + "/" + name,
	}
}

// nodeName is the name of an entry without its number.
func (b *Backend) nodeName(guid string, k backend.Kind, c backend.Claim) string {
	kazoo := b.layout == Kazoo
	switch c.Mode {
	case backend.Exclusive:
		switch {
		case kazoo:
			return guid + "__lock__"
		case k == backend.RWMutex:
			return "_c_" + guid + "-__WRIT__"
		}
		return "_c_" + guid + "-lock-"
	case backend.Shared:
		if kazoo {
			return guid + "__rlock__"
		}
		return "_c_" + guid + "-__READ__"
	case backend.Permit:
		return fmt.Sprintf("_c_%s-permit-%d-%d-", guid, c.Weight, c.Limit)
	default:
		return "_c_" + guid + "-member-"
	}
}

// A node is an entry as its name tells it.
type node struct {
	name   string
	guid   string // what stands before the type
	number int32
	suffix string // the number as it is written
	claim  backend.Claim
	ours   bool // the name is one that this package or go-zookeeper gives
}

func (n node) id() string { return n.guid + "." + n.suffix }

// types are the parts of names that tell what an entry is, by whom they are
// given. No type is the end of another, but for those that come later.
var types = []struct {
	text string
	mode backend.Mode
}{
	{"__rlock__", backend.Shared},        // Kazoo's ReadLock
	{"__lock__", backend.Exclusive},      // Kazoo's Lock and WriteLock
	{"__WRIT__", backend.Exclusive},      // Curator's InterProcessReadWriteLock
	{"__READ__", backend.Shared},         // the same
	{"-member-", backend.Presence},       // ours
	{"lock-", backend.Exclusive},         // Curator's InterProcessMutex, go-zookeeper's Lock
	{"write-", backend.Exclusive},        // the recipes of ZooKeeper
	{"read-", backend.Shared},            // the same
	{"latch-", backend.Exclusive},        // Curator's LeaderLatch
	{"__CANDIDATE__", backend.Exclusive}, // Kazoo's Election
}

// parseNode reads a name. It answers false for what is no entry.
func parseNode(name string) (node, bool) {
	i := len(name) - 10
	if i < 0 || !digits(name[i:]) {
		return node{}, false
	}
	if i > 0 && name[i-1] == '-' {
		// A number that wrapped has a sign, and a type may end like one.
		if before := name[:i-1]; strings.HasSuffix(before, "-") || strings.HasSuffix(before, "__") {
			i--
		}
	}
	number, err := strconv.ParseInt(name[i:], 10, 32)
	if err != nil {
		return node{}, false
	}
	n := node{name: name, number: int32(number), suffix: name[i:]}
	head := name[:i]
	if n.permit(head) {
		return n, true
	}
	for _, t := range types {
		if guid, ok := strings.CutSuffix(head, t.text); ok {
			n.claim.Mode = t.mode
			n.setGUID(guid)
			return n, true
		}
	}
	return node{}, false
}

// permit reads "_c_<guid>-permit-<weight>-<limit>-".
func (n *node) permit(head string) bool {
	guid, rest, ok := strings.Cut(head, "-permit-")
	if !ok {
		return false
	}
	parts := strings.Split(rest, "-")
	if len(parts) != 3 || parts[2] != "" {
		return false
	}
	weight, err1 := strconv.ParseInt(parts[0], 10, 64)
	limit, err2 := strconv.ParseInt(parts[1], 10, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	n.claim = backend.Claim{Mode: backend.Permit, Weight: weight, Limit: limit}
	n.setGUID(guid)
	return true
}

func (n *node) setGUID(head string) {
	n.guid = strings.TrimSuffix(strings.TrimPrefix(head, "_c_"), "-")
	n.ours = len(n.guid) == 32 && strings.Trim(n.guid, "0123456789abcdef") == ""
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// inLine picks the entries among children and sorts them by their numbers,
// which wrap around: the earlier of two is that from which the other is less
// than half of all numbers away.
func inLine(children []string) []node {
	line := make([]node, 0, len(children))
	for _, name := range children {
		if n, ok := parseNode(name); ok {
			line = append(line, n)
		}
	}
	if len(line) == 0 {
		return line
	}
	from := line[0].number
	slices.SortFunc(line, func(x, y node) int {
		return cmp.Or(cmp.Compare(x.number-from, y.number-from), strings.Compare(x.name, y.name))
	})
	return line
}

// entry joins what the name and the data say. The name decides.
func (n node) entry(data []byte, stat *zk.Stat) backend.Entry {
	e := backend.Entry{ID: n.id(), Token: uint64(stat.Czxid), Claim: n.claim}
	r, ok := remote.Decode(data)
	if !ok || r.Format != remote.RecordFormat {
		e.Since = time.UnixMilli(stat.Ctime)
		return e
	}
	e.Since = time.UnixMilli(r.Since)
	e.Claim.Owner, e.Claim.Data = r.Owner, r.Data
	e.Claim.Weight, e.Claim.Limit = r.Weight, r.Limit
	if r.Token != 0 {
		e.Token = r.Token
	}
	return e
}
