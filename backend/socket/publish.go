//go:build linux || darwin

package socket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/gocoord/coord/backend"
)

// publish puts a listening socket at the path. It listens before anybody can
// find it, and replaces nothing but a socket.
func (s *server) publish() error {
	var random [4]byte
	_, _ = rand.Read(random[:])
	name := fmt.Sprintf("s-%x", random)
	tmp := filepath.Join(s.at.dir(), name)
	ln, err := listen(s.at.dir(), name, s.at.mode)
	if err != nil {
		return fmt.Errorf("a socket in %s: %w", s.at.dir(), err)
	}
	defer os.Remove(tmp) //nolint:errcheck // it is gone if all went well
	err = os.Chmod(tmp, s.at.mode)
	if err == nil {
		err = s.place(tmp)
	}
	if err != nil {
		_ = ln.Close()
		return err
	}
	fi, err := os.Lstat(s.at.path)
	if err != nil {
		_ = ln.Close()
		return err
	}
	s.ln, s.socket = ln, identityOf(fi)
	return nil
}

func (s *server) place(tmp string) error {
	for range 100 {
		switch occ, err := s.at.occupied(); {
		case err != nil:
			return err
		case occ == aFile:
			return errOccupied
		case occ == aSocket:
			return os.Rename(tmp, s.at.path) // a predecessor's
		}
		if err := os.Link(tmp, s.at.path); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return errOccupied
}

var errOccupied = errors.New("a regular file is at the path")

func listenUnix(lc net.ListenConfig, path string) (*net.UnixListener, error) {
	ln, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	l, ok := ln.(*net.UnixListener)
	if !ok {
		_ = ln.Close()
		return nil, fmt.Errorf("%w: a listener of type %T", backend.ErrUnsupported, ln)
	}
	// By the time it closes, the path may be a successor's.
	l.SetUnlinkOnClose(false)
	return l, nil
}

// republish puts a socket at the path again when somebody removed it. Nobody
// else can: that takes the flock.
func (s *server) republish() error {
	if s.socket.is(s.at.path) {
		return nil
	}
	if occ, err := s.at.occupied(); err != nil || occ == aFile {
		return err // it is waited for, and those who are connected go on
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil
	}
	old := s.ln
	if err := s.publish(); err != nil {
		return err
	}
	_ = old.Close()
	s.loops.Go(s.accept)
	return nil
}
