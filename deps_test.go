package coord_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/gocoord/coord"

// policy says what each package may import beside the standard library: a
// package of this module by its path from the root, "." for the root itself,
// "name/..." for another module. Tests are free, but for importing upwards.
var policy = map[string][]string{
	".":                          {"backend", "github.com/hashicorp/go-multierror"},
	"backend":                    {},
	"fence":                      {},
	"backend/memory":             {"backend"},
	"backend/etcd":               {"backend", "internal/remote", "go.etcd.io/etcd/...", "google.golang.org/grpc/...", "go.uber.org/zap/..."},
	"backend/socket":             {"backend", "backend/memory", "github.com/fsnotify/fsnotify", "golang.org/x/sys/..."},
	"backend/zookeeper":          {"backend", "internal/remote", "github.com/go-zookeeper/zk"},
	"backend/all":                {"backend/memory", "backend/socket", "backend/etcd", "backend/zookeeper"},
	"conformance":                {".", "backend", "github.com/anishathalye/porcupine"},
	"internal/remote":            {"backend"},
	"internal/drivertest":        {"backend", "conformance", "internal/testenv"},
	"internal/testenv":           {},
	"internal/testenv/buildetcd": {"internal/testenv"},
	"internal/cli":               {".", "backend", "github.com/spf13/cobra", "golang.org/x/sys/...", "golang.org/x/term"},
	"cmd/coord":                  {"internal/cli", "backend/all"},
	"examples/quickstart":        {".", "backend/all"},
	"examples/minimal":           {"backend"},
}

// TestImports keeps the arrows of the architecture: drivers know the contract
// and nothing above it.
func TestImports(t *testing.T) {
	for dir, files := range sources(t) {
		allowed, ok := policy[dir]
		if !ok {
			t.Errorf("package %s is not in the import policy of deps_test.go; add it with what it may import", dir)
			continue
		}
		for _, file := range files {
			for _, path := range imports(t, file) {
				if !permitted(path, allowed) {
					t.Errorf("%s imports %s; the policy in deps_test.go allows %q", file, path, allowed)
				}
			}
		}
	}
}

func permitted(path string, allowed []string) bool {
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(allowed, func(a string) bool {
		switch tree, isTree := strings.CutSuffix(a, "/..."); {
		case isTree:
			return path == tree || strings.HasPrefix(path, tree+"/")
		case a == ".":
			return path == module
		case strings.Contains(a, "."):
			return path == a
		default:
			return path == module+"/"+a
		}
	})
}

// sources lists the non-test Go files of this module by package directory.
func sources(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			nested, _ := filepath.Glob(filepath.Join(path, "go.mod"))
			if path != "." && (len(nested) > 0 || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			dir := filepath.ToSlash(filepath.Dir(path))
			out[dir] = append(out[dir], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// TestSmallPrograms shows that a program with the memory backend links nothing
// but the standard library, this module and go-multierror.
func TestSmallPrograms(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".", "./backend/memory").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		// errwrap is what go-multierror is made of.
		ours := path == module || strings.HasPrefix(path, module+"/")
		if !ours && path != "github.com/hashicorp/go-multierror" && path != "github.com/hashicorp/errwrap" {
			t.Errorf("a program that imports coord and backend/memory links %s", path)
		}
	}
}
