package etcd

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gocoord/coord/backend"
)

// errStale means that etcd does not know the lease that a request was for.
var errStale = errors.New("etcd does not know the session any more: it expired or was revoked")

// temporary reports whether a request that failed with err was perhaps carried
// out, or may succeed when it is repeated. That is so unless etcd refused it: a
// leader that is being replaced answers with codes.Unknown, and so may whatever
// stands between.
func temporary(err error) bool {
	switch {
	case errors.Is(err, rpctypes.ErrTooManyRequests), errors.Is(err, rpctypes.ErrNotLeader),
		errors.Is(err, rpctypes.ErrAuthOldRevision), errors.Is(err, rpctypes.ErrInvalidAuthToken):
		return true
	}
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.ResourceExhausted,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.DataLoss, codes.Unauthenticated:
		return false
	}
	return true
}

// answered reports whether err is etcd's own word, as against a sign of not
// reaching it.
func answered(err error) bool {
	return err == nil || !temporary(err) || errors.Is(err, rpctypes.ErrTooManyRequests)
}

func code(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// explain turns an answer of etcd's into an error of the contract.
func (b *Backend) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return errStale
	case errors.Is(err, rpctypes.ErrNoSpace):
		return backend.Unavailable(b.info.Service, fmt.Errorf(
			"its database is full: compact and defragment it or raise its quota, then run \"etcdctl alarm disarm\" (%w)", err))
	case errors.Is(err, rpctypes.ErrCorrupt):
		return backend.Unavailable(b.info.Service, fmt.Errorf("a member found its data corrupt and needs an operator (%w)", err))
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("etcd: no permission: grant the user a role with readwrite permission for all keys that begin with %q (%w)",
			b.root+"/", err)
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("etcd: authentication is switched on and no user is given: put user:password@ before the hosts of the URL (%w)", err)
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return fmt.Errorf("etcd: it knows no such user and password (%w)", err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("%w: etcd takes no request of this size; see its --max-request-bytes (%w)", backend.ErrInvalid, err)
	}
	return fmt.Errorf("etcd: %w", err)
}
