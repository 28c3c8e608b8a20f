//go:build !linux

package cli

// fileSystem cannot tell here.
func fileSystem(string) (kind string, remote bool) { return "", false }

// writable is left to the service to find out.
func writable(string) error { return nil }
