//go:build !unix

package drivertest

// Main runs the tests by the given function, and returns the exit code.
func Main(run func() int) int { return run() }
