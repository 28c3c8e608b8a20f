//go:build linux || darwin

package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

func TestPathLength(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{maxPath - 4, maxPath - 3, maxPath, maxPath + 1, 200} {
		path := dir + "/" + strings.Repeat("x", n-len(dir)-1)
		if n == maxPath-3 {
			path = dir + "/" + strings.Repeat("é", (n-len(dir)-1)/2)
		}
		b, err := Open(t.Context(), path)
		if n <= maxPath {
			if err != nil {
				t.Errorf("%d bytes: %v", len(path), err)
				continue
			}
			b.Close()
			continue
		}
		if err == nil {
			b.Close()
		}
		for _, word := range []string{path, fmt.Sprint(n), fmt.Sprint(maxPath)} {
			if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), word) {
				t.Errorf("%d bytes: %v; want ErrInvalid with %q", n, err, word)
			}
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), strings.Repeat("x", maxPath+1-len(dir)-1)) {
			t.Errorf("%s is left of a path that is too long", f.Name())
		}
	}
}

func TestRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	b := opened(t, "s")
	t.Chdir(t.TempDir())
	if !filepath.IsAbs(b.Info().Service) {
		t.Errorf("the service is %q, want an absolute path", b.Info().Service)
	}
	opened(t, b.Info().Service)
}

// TestNotOurs has things at the path that no server put there: an error, and
// they stay as they are.
func TestNotOurs(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"named pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"symbolic link": func(path string) error { return os.Symlink(path+".nowhere", path) },
	} {
		path := socketPath(t)
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(path)
		_, err := Open(t.Context(), path)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), name) {
			t.Errorf("a %s: %v; want ErrInvalid that says so", name, err)
		}
		after, err := os.Lstat(path)
		if err != nil || !os.SameFile(before, after) {
			t.Errorf("the %s was touched: %v", name, err)
		}
	}
}

func TestDirectories(t *testing.T) {
	if _, err := Open(t.Context(), t.TempDir()+"/no/s"); !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "/no") {
		t.Errorf("no directory: %v; want ErrInvalid with its name", err)
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), open+"/s"); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("a directory that everybody may write to: %v; want ErrInvalid", err)
	}
	if err := os.Chmod(open, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	opened(t, open+"/s")
}

func TestSymlinkToSocket(t *testing.T) {
	path := socketPath(t)
	link := path + "-link"
	a := opened(t, path)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	b := opened(t, link)
	if _, err := a.Acquire(t.Context(), mutex("a"), exclusive); err != nil {
		t.Fatal(err)
	}
	try := exclusive
	try.NoWait = true
	if _, err := b.Acquire(t.Context(), mutex("a"), try); !errors.Is(err, backend.ErrBusy) {
		t.Errorf("through a link: %v, want ErrBusy", err)
	}
}

// TestRegularFile is another program's lock file: it is waited for, and not
// removed.
func TestRegularFile(t *testing.T) {
	path := socketPath(t)
	if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, path); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), path) {
		t.Errorf("Open beside a regular file: %v; want DeadlineExceeded and the path", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "theirs" {
		t.Fatalf("the file is %q, %v", text, err)
	}
	got := make(chan error, 1)
	go func() {
		b, err := Open(t.Context(), path)
		if err == nil {
			err = b.Close()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("Open did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("Open did not notice that the file has gone")
	}
}

// TestModes: the modes are those that were asked for, whatever the umask.
func TestModes(t *testing.T) {
	for _, umask := range []string{"0", "022", "077"} {
		for _, mode := range []fs.FileMode{0o600, 0o660} {
			path := socketPath(t)
			p := helping(t, path, "COORD_SOCKET_UMASK="+umask, fmt.Sprintf("COORD_SOCKET_MODE=%#o", mode))
			p.lock("a")
			l := layout{path: path, mode: mode}
			files, err := filepath.Glob(l.dir() + "/*")
			if err != nil || len(files) != 2 {
				t.Errorf("the files are %q, %v; want a journal and a member", files, err)
			}
			for _, file := range append(files, path, l.sidecar()) {
				if fi, err := os.Lstat(file); err != nil || fi.Mode().Perm() != mode {
					t.Errorf("umask %s: %s has mode %v, %v; want %v", umask, file, fi.Mode(), err, mode)
				}
			}
			if fi, err := os.Lstat(l.dir()); err != nil || fi.Mode().Perm() != l.dirMode() {
				t.Errorf("umask %s: the directory has mode %v, want %v", umask, fi.Mode(), l.dirMode())
			}
			p.end()
		}
	}
	if _, err := Open(t.Context(), socketPath(t), WithMode(0o666)); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("mode 0666: %v, want ErrInvalid", err)
	}
}

// TestSecondUser needs root: by default another user is kept out, and with
// mode 0660 a member of the group takes part, and serves, too.
func TestSecondUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	dir, err := os.MkdirTemp("", "coord") //nolint:usetesting // other users cannot search that of t
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a test's
	const first, second, group = 60001, 60002, 60003
	binary := filepath.Join(dir, "helper")
	copyFile(t, os.Args[0], binary)
	for _, mode := range []string{"0600", "0660"} {
		home := filepath.Join(dir, mode)
		if err := errors.Join(os.Mkdir(home, 0o700), os.Chown(home, first, group), os.Chmod(home, 0o770|fs.ModeSetgid), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
		path := home + "/s"
		as := func(uid uint32) *proc {
			p := prepare(t, path, "COORD_SOCKET_MODE="+mode)
			p.cmd.Path = binary
			p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: group}}
			p.run()
			return p
		}
		a := as(first)
		a.hears("open")
		b := as(second)
		if mode == "0600" {
			if line := <-b.said; !strings.HasPrefix(line, "failed") || !strings.Contains(line, "permission denied") {
				t.Errorf("another user: %q; want a permission error", line)
			}
			a.end()
			continue
		}
		b.hears("open")
		a.lock("a")
		b.tell("lock a")
		b.ask("awaited", "await a 2")
		a.kill()
		b.hears("locked a")
		if role := b.ask("role", "role"); role != "server" {
			t.Errorf("the other user is %s, want server", role)
		}
		again := as(first)
		again.hears("open")
		again.end()
		b.end()
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(out.Chmod(0o755), out.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestURL(t *testing.T) {
	for url, ok := range map[string]bool{
		"socket:///run/s": true, "unix:///run/s?mode=0660": true, "socket://": false, "socket:///": false,
		"socket://run/s": false, "socket:///s?mode=0666": false, "unix://u:p@/s": false, "socket:///s?mod=0660": false,
	} {
		if _, err := backend.Parse(url); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
	path := socketPath(t)
	o, err := backend.Parse("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := o(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	opened(t, path)
}

// TestFullDisk has a journal that cannot grow: a clear error and no grant; and
// what was granted can still be released.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("no small file system to be had: %s", out)
	}
	defer exec.Command("umount", "-l", dir).Run() //nolint:errcheck // it is a test's
	path := dir + "/s"
	server, b := helping(t, path), opened(t, path)
	server.lock("a")
	// The server's own claims need no journal; this one's do.
	held, err := b.Acquire(t.Context(), mutex("held"), exclusive)
	if err != nil {
		t.Fatal(err)
	}
	ballast, err := os.Create(dir + "/ballast")
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	ballast.Close()
	big := exclusive
	big.Data = make([]byte, 8<<10) // more than what is left of the last page
	_, err = b.Acquire(t.Context(), mutex("b"), big)
	if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("Acquire on a full disk: %v; want ErrUnavailable that says why", err)
	}
	place := backend.Place{Kind: backend.Latch, Name: "l"}
	if _, err := b.Store(t.Context(), place, big.Data, "0"); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Store on a full disk: %v; want ErrUnavailable", err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Errorf("Release on a full disk: %v", err)
	}
	inLine(t, b, "b", 0)
	// A succession works there, too.
	server.kill()
	l, err := b.Acquire(t.Context(), mutex("a"), exclusive)
	if err != nil {
		t.Fatalf("after a succession on a full disk: %v", err)
	}
	l.Release(t.Context())
	if err := os.Remove(dir + "/ballast"); err != nil {
		t.Fatal(err)
	}
	if l, err = b.Acquire(t.Context(), mutex("b"), big); err != nil {
		t.Errorf("once there is space: %v", err)
	} else {
		l.Release(t.Context())
	}
}
