package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxName    = 255 // bytes of a name
	maxEscaped = 200 // bytes of an escaped name: file systems allow 255, and drivers append to it
	keptPrefix = 120 // bytes of a longer escaped name that stay readable
)

// CheckName reports why name is no name of a lock or other place, as
// ErrInvalid. A name has 1 to 255 bytes of UTF-8 in parts separated by "/", of
// which none is empty, "." or "..", and no control characters. The verdict is
// the same for every backend.
func CheckName(name string) error {
	if plain(name) && strings.Trim(name, ".") != "" {
		return nil // the usual case, in one pass
	}
	bad := func(why string) error { return fmt.Errorf("%w: name %.64q %s", ErrInvalid, name, why) }
	switch {
	case name == "":
		return fmt.Errorf("%w: empty name", ErrInvalid)
	case len(name) > maxName:
		return bad(fmt.Sprintf("has %d bytes, want at most %d", len(name), maxName))
	case !utf8.ValidString(name):
		return bad("is not UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return bad("has a control character")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "":
			return bad(`has an empty part: remove the "/" at an end or the doubled one`)
		case ".", "..":
			return bad(fmt.Sprintf("has the part %q, which would mean another place in a path", part))
		}
	}
	return nil
}

// Escape turns a name into one path element of at most 200 bytes that every
// service takes: letters, digits, "-", "_" and inner dots stay, all else
// becomes %XX. Different names stay different: the end of a long one is
// replaced by "~" and a SHA-256 hash of the whole.
func Escape(name string) string {
	const hexDigits = "0123456789ABCDEF"
	if plain(name) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if unreserved(c) && (c != '.' || i > 0) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	s := b.String()
	if len(s) <= maxEscaped {
		return s
	}
	sum := sha256.Sum256([]byte(name))
	return s[:keptPrefix] + "~" + hex.EncodeToString(sum[:])
}

func plain(name string) bool {
	if len(name) > maxEscaped || name[:min(1, len(name))] == "." {
		return false
	}
	for i := range len(name) {
		if !unreserved(name[i]) {
			return false
		}
	}
	return true
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// Unescape is the inverse of Escape, for listings. It answers false for a name
// that was shortened or never escaped.
func Unescape(s string) (string, bool) {
	name, err := unescape(s)
	return name, err == nil && CheckName(name) == nil && Escape(name) == s
}
