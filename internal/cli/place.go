package cli

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gocoord/coord/backend"
)

// pathOf is the path of a URL whose kind of service is one.
func pathOf(raw string) (string, bool) {
	scheme, rest, _ := strings.Cut(raw, "://")
	d, ok := backend.Lookup(strings.ToLower(scheme))
	if !ok || !strings.Contains(d.Form, ":///") {
		return "", false
	}
	rest, _, _ = strings.Cut(rest, "?")
	path, err := url.PathUnescape(rest)
	return path, err == nil && strings.HasPrefix(path, "/")
}

// place looks at where a path leads. It reports whether there is any use in
// going on.
func (d *doctor) place(scheme, path string) bool {
	dir := path
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		dir = filepath.Dir(path)
	}
	info, err := os.Stat(dir)
	if err != nil {
		d.bad("directory", err, fmt.Sprintf("make it: mkdir -p %q", dir))
		return false
	}
	if !info.IsDir() {
		d.bad("directory", fmt.Errorf("%s is a %s", dir, info.Mode().Type()), "choose another path")
		return false
	}
	if err := writable(dir); err != nil {
		d.bad("directory", fmt.Errorf("%s: %w", dir, err), "the user needs the right to make files there")
		return false
	}
	kind, remote := fileSystem(dir)
	switch {
	case remote && (scheme == "socket" || scheme == "unix"):
		d.bad("file system", fmt.Errorf("%s is on %s, which other hosts may share and a socket cannot cross", dir, kind),
			"choose a path on a local file system, or another kind of service")
		return false
	case kind != "":
		d.ok("file system", "%s is on %s", dir, kind)
	default:
		d.ok("directory", "%s", dir)
	}
	return true
}
