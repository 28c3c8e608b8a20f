//go:build linux || darwin

package socket

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gocoord/coord/backend"
)

var (
	_ backend.Lister    = (*Backend)(nil)
	_ backend.Diagnoser = (*Backend)(nil)
)

// Places implements backend.Lister.
func (b *Backend) Places(ctx context.Context) ([]backend.Place, error) {
	if s := b.server.Load(); s != nil {
		places, err := s.local.Places(ctx)
		return places, b.ofServer(err)
	}
	if err := backend.ContextError(ctx); err != nil {
		return nil, err
	}
	r, _, err := b.ask(ctx, &request{op: opPlaces})
	if err != nil {
		return nil, err
	}
	return r.places, nil
}

// Diagnose implements backend.Diagnoser: it tells who serves and whether that
// process answers, who may use the socket, and where it lies.
func (b *Backend) Diagnose(ctx context.Context) ([]backend.Finding, error) {
	who, err := b.whoServes(ctx)
	if err != nil {
		return nil, err
	}
	out := []backend.Finding{who}
	rights, err := b.at.rights()
	if err != nil {
		return out, err
	}
	dir := filepath.Dir(b.at.path)
	kind, err := networkFS(dir)
	if err != nil {
		return append(out, rights), fmt.Errorf("the file system of %s: %w", dir, err)
	}
	system := backend.Finding{Subject: "files", Detail: fmt.Sprintf("%s is on a local file system", dir)}
	if kind != "" { // mounted over since
		system.Detail = fmt.Sprintf("%s is on %s", dir, kind)
		system.Advice = "a Unix socket works on one host only: use a local directory"
	}
	length := backend.Finding{Subject: "path", Detail: fmt.Sprintf("%d bytes, of at most %d", len(b.at.path), maxPath)}
	return append(out, rights, length, system), nil
}

// whoServes names the serving process, after it has answered.
func (b *Backend) whoServes(ctx context.Context) (backend.Finding, error) {
	f := backend.Finding{Subject: "server"}
	if err := backend.ContextError(ctx); err != nil {
		return f, err
	}
	if b.server.Load() != nil {
		f.Detail = fmt.Sprintf("this process, %d, serves%s", os.Getpid(), b.at.servingSince())
		return f, nil
	}
	began := time.Now()
	if _, _, err := b.ask(ctx, &request{op: opPing}); err != nil {
		return f, err
	}
	took := time.Since(began)
	b.mu.Lock()
	w, _ := b.link.(*wire)
	b.mu.Unlock()
	f.Detail = "it changed while it was asked"
	if w == nil {
		return f, nil
	}
	pid, uid, err := peerOf(w.conn)
	if err != nil {
		return f, nil //nolint:nilerr // the connection has ended by now, and another server takes over
	}
	f.Detail = fmt.Sprintf("process %d of the user with id %d serves%s, and answers in %v", pid, uid, b.at.servingSince(), took)
	return f, nil
}

// servingSince is when the socket was made. A server makes its own, and anew
// only where somebody removed it.
func (l layout) servingSince() string {
	fi, err := os.Lstat(l.path)
	if err != nil {
		return ""
	}
	return " since " + fi.ModTime().Format(time.RFC3339)
}

// rights tells who may use the socket.
func (l layout) rights() (backend.Finding, error) {
	f := backend.Finding{Subject: "rights"}
	fi, err := os.Lstat(l.path)
	if err != nil {
		return f, backend.Unavailable(l.path, err)
	}
	mode := fi.Mode().Perm()
	f.Detail = fmt.Sprintf("mode %#o", mode)
	st, ok := fi.Sys().(*syscall.Stat_t)
	if ok {
		f.Detail += fmt.Sprintf(", user id %d, group id %d", st.Uid, st.Gid)
	}
	switch {
	case mode != l.mode:
		f.Advice = fmt.Sprintf("this client asked for %#o: give all clients the same mode, and end those with another", l.mode)
	case l.group() && !l.groupKept():
		f.Advice = fmt.Sprintf("files there belong to the group of whoever makes them: make the directory with \"install -d -g GROUP -m 2770 %s\"", filepath.Dir(l.path))
	}
	return f, nil
}

// groupKept reports whether new files get the group of the directory.
func (l layout) groupKept() bool {
	fi, err := os.Stat(filepath.Dir(l.path))
	return err == nil && fi.Mode()&fs.ModeSetgid != 0
}
