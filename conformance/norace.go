//go:build !race

package conformance

const slow = false
