package coord_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gocoord/coord/backend"
	_ "github.com/gocoord/coord/backend/all"
)

// TestDocsURLs keeps the tables of docs/urls.md to what the drivers ask for.
func TestDocsURLs(t *testing.T) {
	var b strings.Builder
	for _, scheme := range backend.Schemes() {
		d, _ := backend.Lookup(scheme)
		params, err := backend.Params(scheme)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n    %s\n    %s\n", scheme, d.Doc, d.Form, d.Example)
		if len(params) == 0 {
			b.WriteString("\nIt takes no parameters.\n")
			continue
		}
		b.WriteString("\n| parameter | default | |\n|---|---|---|\n")
		for _, p := range params {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, code(p.Default), p.Doc)
		}
	}
	const (
		file  = "docs/urls.md"
		begin = "<!-- begin -->\n"
		end   = "\n<!-- end -->"
	)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, strings.TrimPrefix(end, "\n"))
	if !ok || !ok2 {
		t.Fatalf("%s has lost its markers", file)
	}
	want := before + begin + b.String() + end + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date; run: go test -run TestDocs -update .", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

var link = regexp.MustCompile(`\]\(([^)#:]+)\)`)

// TestDocsLinks shows that every relative link in the documents leads to a
// file.
func TestDocsLinks(t *testing.T) {
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	roots, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, roots...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
			}
		}
	}
}
