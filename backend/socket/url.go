package socket

import (
	"context"
	"fmt"

	"github.com/gocoord/coord/backend"
)

func init() {
	for _, scheme := range []string{"socket", "unix"} {
		backend.Register(scheme, backend.Driver{
			Form:    scheme + ":///absolute/path",
			Example: scheme + ":///run/app/coord.sock",
			Doc:     "Processes of this host, over a Unix socket that the first of them serves. It needs no daemon, and Linux or macOS.",
			Parse:   parse,
		})
	}
}

func parse(u *backend.URL) (backend.Opener, error) {
	mode := u.Query.OneOf("mode", []string{"0600", "0660"}, "who may use it: this user, or the group, too")
	if u.User != nil || len(u.Hosts) > 0 {
		return nil, fmt.Errorf("%w: want three slashes and an absolute path, as in %s:///run/app/coord.sock, and no host or user", backend.ErrInvalid, u.Scheme)
	}
	if len(u.Path) < 2 {
		return nil, fmt.Errorf("%w: no path, as in %s:///run/app/coord.sock", backend.ErrInvalid, u.Scheme)
	}
	opts := []Option{WithMode(defaultMode)}
	if mode == "0660" {
		opts[0] = WithMode(0o660)
	}
	path := u.Path
	return func(ctx context.Context) (backend.Backend, error) {
		b, err := Open(ctx, path, opts...)
		if err != nil {
			return nil, err
		}
		return b, nil
	}, nil
}
