package testenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Binaries are the paths of the executables that the tests run.
type Binaries struct {
	Etcd    string
	Etcdctl string
}

// The packages that the nested module pins with tool directives.
const (
	etcdPackage    = "go.etcd.io/etcd/server/v3"
	etcdctlPackage = "go.etcd.io/etcd/etcdctl/v3"
)

// Build returns the pinned etcd and etcdctl, and builds them first if this
// machine does not have them yet. That takes minutes once; a machine that
// builds them ahead of the tests (go run ./internal/testenv/buildetcd) keeps
// the time out of the time-out of the first test.
//
// The result is kept in the user's cache directory under a name made from the
// pinned versions and the Go version, so that a new pin is built anew and an old
// one is never mistaken for it. Test binaries that run at the same time build
// once between them.
var Build = sync.OnceValues(build)

func build() (Binaries, error) {
	module, err := moduleDir()
	if err != nil {
		return Binaries{}, err
	}
	dir, err := cacheDir(module)
	if err != nil {
		return Binaries{}, err
	}
	bins := Binaries{
		Etcd:    filepath.Join(dir, "etcd"+exeSuffix()),
		Etcdctl: filepath.Join(dir, "etcdctl"+exeSuffix()),
	}
	if bins.exist() {
		return bins, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return Binaries{}, fmt.Errorf("testenv: make the directory for the built servers: %w", err)
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return Binaries{}, fmt.Errorf("testenv: wait for another build of the servers: %w", err)
	}
	defer unlock()
	// Whoever held the lock before us has probably built them.
	if bins.exist() {
		return bins, nil
	}
	if err := buildOne(module, etcdPackage, bins.Etcd); err != nil {
		return Binaries{}, err
	}
	if err := buildOne(module, etcdctlPackage, bins.Etcdctl); err != nil {
		return Binaries{}, err
	}
	return bins, nil
}

func (b Binaries) exist() bool {
	for _, path := range []string{b.Etcd, b.Etcdctl} {
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// moduleDir finds the nested module beside this source file, because a test
// runs in the directory of its own package, wherever that is.
func moduleDir() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("testenv: the source directory is unknown: run the tests without -trimpath")
	}
	dir := filepath.Join(filepath.Dir(file), "etcd")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("testenv: the module that pins etcd is missing: run the tests in a checkout of the whole repository: %w", err)
	}
	return dir, nil
}

func cacheDir(module string) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", fmt.Errorf("testenv: read the pinned versions: %w", err)
		}
		sum.Write(data)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		// A container without a home directory still has a temporary one.
		base = os.TempDir()
	}
	return filepath.Join(base, "coord-testenv", hex.EncodeToString(sum.Sum(nil)[:12])), nil
}

// buildOne builds one command beside its final name and renames it, so that
// the final name only ever holds a whole executable.
func buildOne(module, pkg, path string) (err error) {
	tmp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	defer func() {
		if rmErr := os.Remove(tmp); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) && err == nil {
			err = rmErr
		}
	}()
	cmd := exec.CommandContext(context.Background(), "go", "build", "-mod=readonly", "-buildvcs=false", "-ldflags=-w", "-o", tmp, pkg)
	cmd.Dir = module
	// Settings for the module under test, such as a workspace or the flags of
	// a race build, are not for the servers. Without cgo no C compiler is needed.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "PWD="+module,
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("testenv: build %s in %s: %w\n%s", pkg, module, err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("testenv: keep the built %s: %w", pkg, err)
	}
	return nil
}

func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}
