//go:build !unix

package zookeeper_test

func runHelper(string) int { return 1 }
