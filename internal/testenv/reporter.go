package testenv

// Reporter is the part of [testing.TB] that this package uses. Every
// *testing.T and *testing.B is one; the interface exists for code that drives
// a server outside a test, since testing.TB cannot be implemented elsewhere.
//
// Fatalf must not return. As with testing.TB, the functions and methods here
// that take a Reporter are to be called from the goroutine that runs the test,
// unless they say otherwise.
type Reporter interface {
	Helper()
	Name() string
	Failed() bool
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	TempDir() string
}
