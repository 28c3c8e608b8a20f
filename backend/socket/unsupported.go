//go:build !linux && !darwin

package socket

import (
	"context"
	"fmt"
	"runtime"

	"github.com/gocoord/coord/backend"
)

// A Backend is one client of a socket. There are none on this platform.
type Backend struct{ backend.Backend }

func open(_ context.Context, cfg config) (*Backend, error) {
	_ = info(cfg.path)
	return nil, fmt.Errorf("%w: the socket backend needs flock(2) and peer credentials as Linux and macOS have them, and this is %s",
		backend.ErrUnsupported, runtime.GOOS)
}
