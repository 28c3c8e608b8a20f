package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// A Driver is what a backend registers for a URL scheme.
type Driver struct {
	Form    string // the shape of its URLs, as in "etcd://host:port,…/prefix"
	Example string // a complete URL that parses
	Doc     string // one sentence
	// Parse reads a URL without any I/O. It asks u.Query for each parameter
	// it knows; Parse of this package then rejects those nobody asked for.
	Parse func(u *URL) (Opener, error)
}

// An Opener connects to the service that a URL named.
type Opener func(ctx context.Context) (Backend, error)

// A URL is a config URL, taken apart.
type URL struct {
	Scheme string
	User   *User    // nil: none given
	Hosts  []string // "host" or "host:port", in the order given; IPv6 in brackets
	Path   string   // decoded, with its leading slash; "" if there is none
	Query  *Query
}

// A User is the user name and password of a URL, decoded. It prints as the
// word "redacted", whatever the verb.
type User struct{ Name, Password string }

// Format implements fmt.Formatter and keeps the secret.
func (User) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("redacted")) }

var registry = struct {
	sync.RWMutex
	drivers map[string]Driver
}{drivers: make(map[string]Driver)}

// Register makes a driver known under a URL scheme. It is meant for init
// functions, and panics on a scheme that is taken or malformed, or a driver
// without Parse.
func Register(scheme string, d Driver) {
	if !isScheme(scheme) {
		panic(fmt.Sprintf("backend: Register of scheme %q: want lower-case letters and digits", scheme))
	}
	if d.Parse == nil {
		panic(fmt.Sprintf("backend: Register of scheme %q: no Parse", scheme))
	}
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.drivers[scheme]; taken {
		panic(fmt.Sprintf("backend: Register of scheme %q: it is taken", scheme))
	}
	registry.drivers[scheme] = d
}

// Schemes returns the registered schemes, sorted.
func Schemes() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.drivers))
}

// Lookup returns the driver of a scheme.
func Lookup(scheme string) (Driver, bool) {
	registry.RLock()
	defer registry.RUnlock()
	d, ok := registry.drivers[scheme]
	return d, ok
}

// Params returns the parameters that the URLs of a scheme take.
func Params(scheme string) ([]Param, error) {
	d, ok := Lookup(scheme)
	if !ok {
		return nil, unknownScheme(scheme)
	}
	u, err := split(d.Example)
	if err != nil {
		return nil, err
	}
	if _, err := d.Parse(u); err != nil {
		return nil, err
	}
	return u.Query.asked, nil
}

// Parse reads a config URL and finds its driver. It does no I/O, so that a
// configuration can be checked without a service. Unknown, repeated and
// malformed parameters are reported all together, as ErrInvalid. No error
// quotes the user, the password or any text that might be part of them.
func Parse(rawURL string) (Opener, error) {
	u, err := split(rawURL)
	if err != nil {
		return nil, err
	}
	d, ok := Lookup(u.Scheme)
	if !ok {
		return nil, unknownScheme(u.Scheme)
	}
	open, err := d.Parse(u)
	if err := errors.Join(err, u.Query.check()); err != nil {
		return nil, fmt.Errorf("%s URL: %w", u.Scheme, err)
	}
	return open, nil
}

func unknownScheme(scheme string) error {
	known := Schemes()
	if len(known) == 0 {
		return invalidURL(`unknown scheme %q, and no backend is linked in: import _ "github.com/gocoord/coord/backend/all"`, scheme)
	}
	hint := ""
	if near := nearest(scheme, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return invalidURL("unknown scheme %q (linked in: %s)%s; a missing one may want an import of its backend package",
		scheme, strings.Join(known, ", "), hint)
}

func invalidURL(format string, args ...any) error {
	return fmt.Errorf("%w: config URL: "+format, append([]any{ErrInvalid}, args...)...)
}

// split takes a URL apart. It does not use url.Parse: that rejects several
// hosts in one authority and quotes passwords in its errors. Nothing of the
// authority is quoted before it has proved to be a list of hosts, since a
// password with a raw "/", "?" or "#" puts its pieces anywhere.
func split(raw string) (*URL, error) {
	if i := strings.IndexFunc(raw, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }); i >= 0 {
		return nil, invalidURL("a space, line end or control character at byte %d", i)
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !isScheme(strings.ToLower(scheme)) {
		return nil, invalidURL("it does not begin with scheme://, as in memory:// or etcd://127.0.0.1:2379")
	}
	u := &URL{Scheme: strings.ToLower(scheme)}
	if strings.Contains(rest, "#") {
		return nil, invalidURL(`a raw "#": write it as %%23 in a password or path`)
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if strings.Contains(path, "@") || strings.Contains(query, "@") {
		return nil, invalidURL(`an "@" after the hosts: write "/" as %%2F, "?" as %%3F and "@" as %%40 in a password, and "@" as %%40 elsewhere`)
	}
	var err error
	if u.User, u.Hosts, err = splitAuthority(authority); err != nil {
		return nil, err
	}
	if u.Path, err = unescape(path); err != nil {
		return nil, invalidURL("path: %w", err)
	}
	if u.Query, err = splitQuery(query); err != nil {
		return nil, err
	}
	return u, nil
}

func splitAuthority(s string) (user *User, hosts []string, err error) {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		if strings.Contains(s[:i], "@") {
			return nil, nil, invalidURL(`two "@": write the one in the user or password as %%40`)
		}
		name, password, _ := strings.Cut(s[:i], ":")
		user = new(User)
		if user.Name, err = unescape(name); err == nil {
			user.Password, err = unescape(password)
		}
		if err != nil {
			return nil, nil, invalidURL("user or password: %w", err)
		}
		s = s[i+1:]
	}
	if s == "" {
		return user, nil, nil
	}
	for i, host := range strings.Split(s, ",") {
		if why := checkHost(host); why != "" {
			return nil, nil, invalidURL(`host number %d %s (a ":", "/", "?", "#", "@" or "%%" of a password is written as %%3A, %%2F, %%3F, %%23, %%40 or %%25)`, i+1, why)
		}
		hosts = append(hosts, host)
	}
	return user, hosts, nil
}

// checkHost says what is wrong with a host, without quoting it.
func checkHost(s string) string {
	if s == "" {
		return "is empty"
	}
	host := s
	if strings.Contains(s, ":") && !strings.HasSuffix(s, "]") {
		var (
			port string
			err  error
		)
		if host, port, err = net.SplitHostPort(s); err != nil {
			return "is not host:port, with an IPv6 address in brackets"
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "has no port between 1 and 65535 after its colon"
		}
	}
	if strings.HasPrefix(s, "[") {
		if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil || !a.Is6() {
			return "has brackets around what is not an IPv6 address"
		}
		return ""
	}
	if host == "" {
		return "has no name before its colon"
	}
	for _, c := range []byte(host) {
		if !unreserved(c) && c < 0x80 {
			return "is not a host name"
		}
	}
	return ""
}

func isScheme(s string) bool {
	for i, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// unescape decodes %XX, and nothing else: a "+" stays a "+".
func unescape(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", errEscape
		}
		n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", errEscape
		}
		b.WriteByte(byte(n))
		i += 2
	}
	return b.String(), nil
}

var errEscape = errors.New(`a "%" without two hexadecimal digits after it: write it as %25`)
