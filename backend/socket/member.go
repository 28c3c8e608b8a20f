//go:build linux || darwin

package socket

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// A memberID names a client among all that ever used the path.
type memberID uint64

const memberPrefix = "m-"

func (m memberID) String() string { return fmt.Sprintf("%016x", uint64(m)) }

// parseMember reads the name of a member file.
func parseMember(name string) (memberID, bool) {
	hex, ok := strings.CutPrefix(name, memberPrefix)
	if !ok || len(hex) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(hex, 16, 64)
	return memberID(n), err == nil
}

// A member is the proof that a client lives: a file whose flock it holds. The
// kernel lets go of it when the process ends, however it ends, and at no other
// time. It is close-on-exec, so that no child keeps it.
type member struct {
	id   memberID
	file *os.File
	at   identity
}

// join makes a member file. A server that finds it before it is locked takes
// it for a dead client's and removes it; then another one is made.
func (l layout) join() (*member, error) {
	for {
		if err := l.makeDir(); err != nil {
			return nil, err
		}
		var random [8]byte
		_, _ = rand.Read(random[:])
		m := &member{id: memberID(binary.LittleEndian.Uint64(random[:]))}
		f, err := l.createFile(l.member(m.id))
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.file = f
		ok, err := lock(f)
		if err == nil {
			m.at, err = identify(f)
		}
		if err != nil {
			m.leave(l)
			return nil, err
		}
		if ok && m.at.is(l.member(m.id)) {
			_, _ = fmt.Fprintf(f, "%d\n", os.Getpid()) // for people
			return m, nil
		}
		m.leave(l)
	}
}

// check reports that the file is not in place any more.
func (m *member) check(l layout) error {
	if path := l.member(m.id); !m.at.is(path) {
		return fmt.Errorf("the file %s was removed or replaced, without which this client would be taken for dead", path)
	}
	return nil
}

// leave removes the file while it is locked, and then lets go of it.
func (m *member) leave(l layout) {
	if m.at.is(l.member(m.id)) {
		_ = os.Remove(l.member(m.id))
	}
	_ = m.file.Close()
}

// lives asks the kernel whether a member lives. It removes the file of one that
// does not.
func (l layout) lives(id memberID) (bool, error) {
	path := l.member(id)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	got, err := lock(f)
	if err != nil || !got {
		return true, err
	}
	_ = os.Remove(path)
	return false, nil
}

// members lists the files of all members, the dead included.
func (l layout) members() ([]memberID, error) {
	d, err := os.Open(l.dir())
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // nothing was written
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var ids []memberID
	for _, name := range names {
		if id, ok := parseMember(name); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
