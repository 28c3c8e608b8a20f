//go:build !unix

package etcd_test

func runHelper(string) int { return 1 }
