package remote

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/gocoord/coord/backend"
)

// CleanPath brings a URL's path into the one form it is used in: a slash before
// every part and none at the end. No parts mean the standard one. For messages
// it is told what the path is called and why "." and ".." are refused.
func CleanPath(path, standard, name, refused string) (string, error) {
	var b strings.Builder
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case part == "":
			continue
		case part == "." || part == "..":
			return "", fmt.Errorf("%w: %s %q has the part %q, which %s", backend.ErrInvalid, name, path, part, refused)
		case strings.ContainsFunc(part, unicode.IsControl):
			return "", fmt.Errorf("%w: %s %q has a control character", backend.ErrInvalid, name, path)
		}
		b.WriteByte('/')
		b.WriteString(part)
	}
	if b.Len() == 0 {
		return standard, nil
	}
	return b.String(), nil
}

// WithPort adds the port to a host that has none.
func WithPort(host, port string) string {
	if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
		return host + ":" + port
	}
	return host
}

// Service names what clients share, however they list the servers: these, and
// the path below which they keep everything.
func Service(servers []string, path string) string {
	return strings.Join(slices.Sorted(slices.Values(servers)), ",") + path
}

// CheckUser wants a user to have both parts.
func CheckUser(u *backend.User) error {
	if u != nil && (u.Name == "" || u.Password == "") {
		return fmt.Errorf("%w: a user without a password, or a password without a user: give both, or neither", backend.ErrInvalid)
	}
	return nil
}

// TLS is what a URL says about TLS: names of files, and of the servers.
type TLS struct{ ca, cert, key, serverName string }

// NewTLS reads the parameters.
func NewTLS(q *backend.Query) (*TLS, error) {
	t := &TLS{
		ca:         q.String("ca", "", "file with the PEM certificates of the authorities that sign the servers'; the system's if not given"),
		cert:       q.String("cert", "", "file with this client's PEM certificate"),
		key:        q.String("key", "", "file with the PEM key of that certificate"),
		serverName: q.String("server_name", "", "the name that the servers' certificates must have, if it is not that in the URL"),
	}
	if (t.cert == "") != (t.key == "") {
		return t, fmt.Errorf("%w: cert and key go together", backend.ErrInvalid)
	}
	return t, nil
}

// Load reads the files. Its errors name them and quote nothing of what is in
// them.
func (t *TLS) Load() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.serverName}
	if t.ca != "" {
		pem, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, fmt.Errorf("%w: parameter ca: %w", backend.ErrInvalid, err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: parameter ca: no PEM certificate in %s", backend.ErrInvalid, t.ca)
		}
	}
	if t.cert != "" {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, fmt.Errorf("%w: parameters cert and key: %w", backend.ErrInvalid, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
