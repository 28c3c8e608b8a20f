package backend

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	good := []string{
		"a", "a/b", "orders/2024", "é", "e\u0301", "🔒", "zookeeper", "%2F", "a b", "*", `{"k":1}`, "CON", "-x",
		"lock-1", "A", "a.b", "...", ".hidden", "a..b", "~", strings.Repeat("x", 255),
	}
	bad := []string{
		"", "/", "a/", "/a", "a//b", ".", "..", "../x", "a/../b", "a/.", "a\x00b", "a\nb", "\xff\xfe", "a\x7f", "a\u0085b",
		strings.Repeat("x", 256), strings.Repeat("é", 128),
	}
	for _, name := range good {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v, want nil", name, err)
		}
	}
	for _, name := range bad {
		if err := CheckName(name); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", name, err)
		}
	}
}

func TestEscape(t *testing.T) {
	tests := map[string]string{
		"orders":  "orders",
		"a/b":     "a%2Fb",
		"a%2Fb":   "a%252Fb",
		".nfs1":   "%2Enfs1",
		"a.b":     "a.b",
		"é":       "%C3%A9",
		"~x":      "%7Ex",
		"...":     "%2E..",
		"a b*":    "a%20b%2A",
		"A-b_c.9": "A-b_c.9",
	}
	for name, want := range tests {
		if got := Escape(name); got != want {
			t.Errorf("Escape(%q) = %q, want %q", name, got, want)
		}
		if got, ok := Unescape(want); !ok || got != name {
			t.Errorf("Unescape(%q) = %q, %t, want %q", want, got, ok, name)
		}
	}
	long, longer := strings.Repeat("é", 100), strings.Repeat("é", 101)
	if a, b := Escape(long), Escape(longer); a == b || len(a) > maxEscaped || len(b) > maxEscaped {
		t.Errorf("long names: %q and %q", a, b)
	}
	if _, ok := Unescape(Escape(long)); ok {
		t.Error("a shortened name was unescaped")
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"a", "a/b", "%", ".", "~", strings.Repeat("ü", 90)} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if CheckName(a) != nil || CheckName(b) != nil {
			return
		}
		x, y := Escape(a), Escape(b)
		if (x == y) != (a == b) {
			t.Errorf("Escape(%q) = %q, Escape(%q) = %q", a, x, b, y)
		}
		if len(x) > maxEscaped || strings.ContainsAny(x, "/\x00 ") || strings.HasPrefix(x, ".") {
			t.Errorf("Escape(%q) = %q is no safe path element", a, x)
		}
		if back, ok := Unescape(x); ok && back != a {
			t.Errorf("Unescape(Escape(%q)) = %q", a, back)
		}
	})
}
