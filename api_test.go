package coord_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// TestAPI holds the exported API against testdata/api.txt, so that a change to
// it is seen in review. After an intended one: go test -run TestAPI -update .
func TestAPI(t *testing.T) {
	var b strings.Builder
	for _, dir := range []string{".", "backend", "backend/etcd", "backend/memory", "conformance", "fence"} {
		b.WriteString("# " + filepath.ToSlash(filepath.Join(module, dir)) + "\n\n")
		for _, decl := range exported(t, dir) {
			b.WriteString(decl + "\n")
		}
		b.WriteString("\n")
	}
	const golden = "testdata/api.txt"
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	have := strings.Split(b.String(), "\n")
	for line := range strings.SplitSeq(string(want), "\n") {
		if !slices.Contains(have, line) {
			t.Errorf("gone from the API: %s", line)
		}
	}
	wanted := strings.Split(string(want), "\n")
	for _, line := range have {
		if !slices.Contains(wanted, line) {
			t.Errorf("new in the API: %s", line)
		}
	}
	if b.String() != string(want) {
		t.Error("the API and its golden file differ")
	}
	if t.Failed() {
		t.Log("if that is intended: go test -run TestAPI -update .")
	}
}

// exported prints the exported declarations of a package, without comments and
// bodies, sorted.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !ast.FileExports(f) {
			continue
		}
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && !ast.IsExported(receiver(d.Recv.List[0].Type)) {
					continue
				}
				d.Body = nil
			case *ast.GenDecl:
				if d.Tok == token.IMPORT {
					continue
				}
			}
			var b bytes.Buffer
			if err := printer.Fprint(&b, token.NewFileSet(), decl); err != nil {
				t.Fatal(err)
			}
			out = append(out, strings.TrimSpace(b.String()))
		}
	}
	slices.Sort(out)
	return out
}

// receiver is the name of a receiver's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
