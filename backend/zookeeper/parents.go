package zookeeper

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"
)

// makePlace makes the node of a place, and its parents. It is a container, so
// that ZooKeeper removes it when nobody uses it any more. Kazoo's locks do not
// stand that: each makes the node once, and fails when it is gone later.
func (b *Backend) makePlace(ctx context.Context, at place) error {
	return b.make(ctx, at.line, b.layout != Kazoo)
}

// makeRegister makes the parents of a register.
func (b *Backend) makeRegister(ctx context.Context, at place) error {
	return b.make(ctx, parent(at.register), false)
}

// make makes a node that may be there already. It begins with the last one, so
// that it needs no rights where nothing is missing.
func (b *Backend) make(ctx context.Context, path string, container bool) error {
	for {
		_, err := do(ctx, b, path, func() (string, error) {
			if !container {
				return b.conn.Create(path, nil, zk.FlagPersistent, b.acl)
			}
			made, err := b.conn.CreateContainer(path, nil, zk.FlagContainer, b.acl)
			if err != nil && strings.Contains(err.Error(), "unknown error") { // a server before 3.5 has none
				return b.conn.Create(path, nil, zk.FlagPersistent, b.acl)
			}
			return made, err
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode) || parent(path) == "":
			return err
		}
		if err := b.make(ctx, parent(path), false); err != nil {
			return err
		}
	}
}
