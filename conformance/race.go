//go:build race

package conformance

// slow says that everything takes ten times as long as it should.
const slow = true
