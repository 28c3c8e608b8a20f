// Package socket coordinates the processes of one host over a Unix socket,
// without a daemon: the first client to come serves the others, and when it
// goes another one takes over.
//
// Who serves is decided by flock(2) on a file beside the socket. The server
// runs the engine of package memory and answers the others over one connection
// each; its own claims go straight to the engine. Whatever a successor has to
// know is in a journal before anybody else is told of it, and every client
// holds a flock on a file of its own, by which the kernel says whether it
// lives. So a server that ends, crashes or is killed takes only its own claims
// along: everybody else's holds, places in line and registers go on, under the
// next server. docs/socket.md describes the files and how it works.
//
// It needs Linux or macOS. Elsewhere Open answers ErrUnsupported.
package socket

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/gocoord/coord/backend"
)

// defaultMode lets only the user of the first client in.
const defaultMode fs.FileMode = 0o600

type config struct {
	path string
	mode fs.FileMode
	via  string // a test's proxy before the socket
}

// An Option changes how Open and Serve go about it.
type Option func(*config)

// WithMode sets the permissions of the socket and what lies beside it: 0600,
// which is the default and lets only processes of the same user in, or 0660,
// which lets the group in, too. They do not depend on the umask. All clients
// of a path have to give the same.
func WithMode(mode fs.FileMode) Option { return func(c *config) { c.mode = mode } }

// Open returns a client of the socket at path, and its server where there is
// none. The directory has to be there, on a local file system. It waits, as
// long as ctx allows, while a regular file is at the path, which is how other
// programs take a lock there; it removes nothing but a socket that a server
// left behind.
func Open(ctx context.Context, path string, opts ...Option) (*Backend, error) {
	cfg, err := newConfig(path, opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, cfg)
}

// Serve stays until ctx ends, as a client that claims nothing: it serves from
// the start or as soon as the present server goes, so that whoever comes and
// goes finds a server. It returns nil at the end of ctx, and an error when it
// cannot open the socket.
func Serve(ctx context.Context, path string, opts ...Option) error {
	b, err := Open(ctx, path, opts...)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return b.Close()
}

func newConfig(path string, opts []Option) (config, error) {
	cfg := config{path: path, mode: defaultMode}
	for _, o := range opts {
		o(&cfg)
	}
	if cfg.mode != 0o600 && cfg.mode != 0o660 {
		return cfg, fmt.Errorf("%w: mode %#o for a socket, want 0600 (this user) or 0660 (and the group)", backend.ErrInvalid, cfg.mode)
	}
	if path == "" {
		return cfg, fmt.Errorf("%w: no path for the socket", backend.ErrInvalid)
	}
	return cfg, nil
}

// info is what this backend promises, wherever it works.
func info(path string) backend.Info {
	return backend.Info{
		Name:    "socket",
		Service: path,
		Scope:   backend.Host,
		FIFO:    true,
		Fencing: true,
		Durable: true,
	}
}
