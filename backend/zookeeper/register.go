package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// A register is a node whose version is ZooKeeper's own, together with which of
// the registers of that name it is: ZooKeeper counts anew where a node is
// removed and made again. That is kept in the name of a child, so that it can
// be a condition. The data begin with a line that names the register and the
// Store that wrote it, so that a repeat of that recognises its own effect.
const tagPrefix = "coord1 "

// noRegister is the version of a register that does not exist.
const noRegister = backend.Version("0")

func version(guid string, v int32) backend.Version {
	return backend.Version(guid + "." + strconv.FormatInt(int64(v), 10))
}

// parseVersion is the inverse of version. What is no version of a register gets
// one that no register has.
func parseVersion(v backend.Version) (guid string, n int32) {
	guid, rest, ok := strings.Cut(string(v), ".")
	i, err := strconv.ParseInt(rest, 10, 32)
	if !ok || err != nil || i < 0 || guid == "" || strings.Contains(guid, "/") {
		return "none", 0
	}
	return guid, int32(i)
}

// Load implements backend.Backend.
func (b *Backend) Load(ctx context.Context, p backend.Place, since backend.Version) (backend.Value, error) {
	ctx, stop, err := remote.Begin(ctx, b.ctx, p)
	if err != nil {
		return backend.Value{}, err
	}
	defer stop()
	at := b.place(p)
	if since == "" {
		return b.sharedLoad(ctx, at, true)
	}
	for {
		w, _, err := b.watches.watch(ctx, watchExists, at.register)
		if err != nil {
			return backend.Value{}, err
		}
		v, err := b.sharedLoad(ctx, at, false)
		if err != nil || v.Version != since {
			return v, err
		}
		if _, err := b.fired(ctx, w); err != nil {
			return backend.Value{}, err
		}
	}
}

// sharedLoad is load for callers of this client who read at the same time, if
// need be after a sync.
func (b *Backend) sharedLoad(ctx context.Context, at place, fresh bool) (backend.Value, error) {
	key := at.register
	if fresh {
		key += "/"
	}
	v, err := b.loads.Get(ctx, key, func(ctx context.Context) (backend.Value, error) {
		if fresh {
			if err := b.sync(ctx, at.register); err != nil {
				return backend.Value{}, err
			}
		}
		v, _, err := b.load(ctx, at)
		return v, err
	})
	v.Data = slices.Clone(v.Data) // it may be shared
	return v, err
}

type content struct {
	data []byte
	stat *zk.Stat
}

// load reads a register, and the tag of its Store.
func (b *Backend) load(ctx context.Context, at place) (backend.Value, string, error) {
	c, err := do(ctx, b, at.register, func() (content, error) {
		data, stat, err := b.conn.Get(at.register)
		return content{data, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return backend.Value{Version: noRegister}, "", nil
	}
	if err != nil {
		return backend.Value{}, "", err
	}
	first, rest, ok := bytes.Cut(c.data, []byte("\n"))
	head, tagged := strings.CutPrefix(string(first), tagPrefix)
	guid, tag, ok2 := strings.Cut(head, " ")
	if !ok || !tagged || !ok2 {
		return backend.Value{}, "", fmt.Errorf("zookeeper: the data of %s are not of this package's making: remove that node, or name another base path", at.register)
	}
	if rest == nil {
		rest = []byte{}
	}
	return backend.Value{Data: rest, Version: version(guid, c.stat.Version)}, tag, nil
}

// unchanged is the condition that a register is at a version, as operations of
// a multi. That there is none is tried out by making it.
func (at place) unchanged(v backend.Version, acl []zk.ACL) []any {
	if v == noRegister {
		return []any{
			&zk.CreateRequest{Path: at.register, Acl: acl, Flags: zk.FlagPersistent},
			&zk.DeleteRequest{Path: at.register, Version: -1},
		}
	}
	guid, n := parseVersion(v)
	return []any{
		&zk.CheckVersionRequest{Path: at.register + "/" + guid, Version: -1},
		&zk.CheckVersionRequest{Path: at.register, Version: n},
	}
}

// multi makes several operations in one step. Its error is that of the first
// one that failed.
func (b *Backend) multi(ops []any) error {
	results, err := b.conn.Multi(ops...)
	if err != nil {
		return err
	}
	for _, r := range results {
		// The others answer that they were not carried out.
		if r.Error != nil && (conflicting(r.Error) || !errors.Is(r.Error, zk.ErrUnknown)) {
			return r.Error
		}
	}
	return nil
}

// conflicting reports whether a condition did not hold.
func conflicting(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNotEmpty)
}

// Store implements backend.Backend.
func (b *Backend) Store(ctx context.Context, p backend.Place, data []byte, prev backend.Version, alive ...string) (backend.Version, error) {
	if err := backend.CheckRegister(data); err != nil {
		return "", err
	}
	ctx, stop, err := remote.Begin(ctx, b.ctx, p)
	if err != nil {
		return "", err
	}
	defer stop()
	w := b.newWrite(b.place(p), data, prev)
	v, err := w.store(ctx, alive)
	if w.doubt && err != nil && !errors.Is(err, backend.ErrConflict) {
		b.doubts.Remember(w.at.register, w.tag, w.data, prev)
	}
	return v, err
}

// A write is a Store in progress.
type write struct {
	b     *Backend
	at    place
	tag   string
	data  []byte
	prev  backend.Version
	doubt bool // a request went unanswered
}

// change is what makes the new version, and that version.
func (w *write) change() ([]any, backend.Version) {
	head := func(guid string) []byte { return append([]byte(tagPrefix+guid+" "+w.tag+"\n"), w.data...) }
	switch {
	case w.data == nil && w.prev == noRegister:
		return w.at.unchanged(w.prev, w.b.acl), noRegister
	case w.data == nil:
		guid, n := parseVersion(w.prev)
		return []any{
			&zk.DeleteRequest{Path: w.at.register + "/" + guid, Version: -1},
			&zk.DeleteRequest{Path: w.at.register, Version: n},
		}, noRegister
	case w.prev == noRegister:
		// The tag is as good a GUID as any, and tells that the register is ours.
		return []any{
			&zk.CreateRequest{Path: w.at.register, Data: head(w.tag), Acl: w.b.acl, Flags: zk.FlagPersistent},
			&zk.CreateRequest{Path: w.at.register + "/" + w.tag, Acl: w.b.acl, Flags: zk.FlagPersistent},
		}, version(w.tag, 0)
	default:
		guid, n := parseVersion(w.prev)
		return []any{
			&zk.CheckVersionRequest{Path: w.at.register + "/" + guid, Version: -1},
			&zk.SetDataRequest{Path: w.at.register, Data: head(guid), Version: n},
		}, version(guid, n+1)
	}
}

func (w *write) store(ctx context.Context, alive []string) (backend.Version, error) {
	conditions, err := w.alive(ctx, alive)
	if err != nil {
		return "", err
	}
	change, v := w.change()
	ops := append(conditions, change...)
	for r := w.b.newRetry(); ; {
		_, err := await(ctx, start(w.b, func() (struct{}, error) { return struct{}{}, w.b.multi(ops) }))
		if err == nil {
			return v, nil
		}
		if ended := remote.Why(ctx); ended != nil {
			w.doubt = true
			return "", ended
		}
		switch {
		case temporary(err):
			w.doubt = true
			if err := r.pause(ctx, err); err != nil {
				return "", err
			}
			if v, settled, err := w.settle(ctx); settled || err != nil {
				return v, err
			}
		case conflicting(err):
			v, settled, err := w.settle(ctx)
			if settled || err != nil {
				return v, err
			}
			// The register is as it was. Either an entry has left, or there is no
			// parent to make it in.
			if w.prev != noRegister {
				return "", w.conflict(w.prev)
			}
			parented, err := w.b.exists(ctx, parent(w.at.register))
			if err != nil {
				return "", err
			}
			if parented {
				return "", w.conflict(w.prev)
			}
			if err := w.b.makeRegister(ctx, w.at); err != nil {
				return "", err
			}
		default:
			return "", w.b.judge(w.at.register, err)
		}
	}
}

// alive is the condition that entries are in line.
func (w *write) alive(ctx context.Context, ids []string) ([]any, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	line, err := w.b.freshList(ctx, w.at)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(line))
	for _, n := range line {
		names[n.id()] = n.name
	}
	var ops []any
	for _, id := range ids {
		name, ok := names[id]
		if !ok {
			return nil, fmt.Errorf("%w: entry %s has left", backend.ErrConflict, id)
		}
		ops = append(ops, &zk.CheckVersionRequest{Path: w.at.line + "/" + name, Version: -1})
	}
	return ops, nil
}

func (w *write) conflict(now backend.Version) error {
	return fmt.Errorf("%w: the register is at version %s, or an entry has left", backend.ErrConflict, now)
}

// settle decides about a Store that failed, or whose answer was lost. It is not
// settled where the register is still at the version to be replaced.
func (w *write) settle(ctx context.Context) (v backend.Version, settled bool, err error) {
	if err := w.b.sync(ctx, w.at.register); err != nil {
		return "", false, err
	}
	now, tag, err := w.b.load(ctx, w.at)
	switch {
	case err != nil:
		return "", false, err
	case tag == w.tag && w.data != nil:
		return now.Version, true, nil
	case now.Version == w.prev:
		return "", false, nil
	case w.doubt && w.data == nil && now.Version == noRegister:
		return noRegister, true, nil
	case w.doubt && !w.passedOver(now.Version):
		return "", true, backend.Unavailable(w.b.info.Service, errors.New("the answer to a store was lost, and others have stored since"))
	}
	return "", true, w.conflict(now.Version)
}

// passedOver reports whether it was certainly another Store that replaced the
// version: the one after it is there, and not of our making.
func (w *write) passedOver(now backend.Version) bool {
	was, n := parseVersion(w.prev)
	guid, m := parseVersion(now)
	if w.prev == noRegister {
		return guid != w.tag
	}
	return now != noRegister && guid == was && m == n+1
}

func (b *Backend) newWrite(at place, data []byte, prev backend.Version) *write {
	w := &write{b: b, at: at, data: slices.Clone(data), prev: prev}
	if w.tag, w.doubt = b.doubts.Take(at.register, data, prev); !w.doubt {
		w.tag = newGUID()
	}
	return w
}
