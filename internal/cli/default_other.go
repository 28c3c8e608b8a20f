//go:build !unix

package cli

import "runtime"

// defaultURL has nothing to offer where there is no socket backend.
func defaultURL() (string, error) {
	return "", usage("no service is named, and %s has no default; give --url or set %s, for example to etcd://host:2379/prefix", runtime.GOOS, envURL)
}
