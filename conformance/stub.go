package conformance

func sessionChecks() []check   { return nil }
