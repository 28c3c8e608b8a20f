package zookeeper

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// errStale means that a session has ended.
var errStale = errors.New("ZooKeeper has ended the session: it expired or was closed")

// temporary reports whether a request that failed with err may succeed when it
// is repeated. It was perhaps carried out.
func temporary(err error) bool {
	for _, e := range []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionMoved, zk.ErrClosing, zk.ErrUnknown, zk.ErrNothing} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// explain turns an answer of ZooKeeper's into an error of the contract. Those
// that a caller decides by remain what they are.
func (b *Backend) explain(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrSessionExpired):
		return errStale
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("zookeeper: no permission for %s: give the user all rights for %s and below it, or name another user or base path in the URL (%w)", path, b.base, err)
	case errors.Is(err, zk.ErrAuthFailed):
		return fmt.Errorf("zookeeper: it refused the user and password (%w)", err)
	case errors.Is(err, zk.ErrInvalidACL):
		return fmt.Errorf("zookeeper: acl=creator needs a user: put user:password@ before the hosts of the URL, or use acl=world (%w)", err)
	}
	return fmt.Errorf("zookeeper: %s: %w", path, err)
}
