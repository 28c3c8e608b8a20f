//go:build unix && !linux

package testenv

// awaitSuspended trusts that the signal takes effect at once, for want of a
// way to see it that every system has.
func (p *process) awaitSuspended() error { return nil }
