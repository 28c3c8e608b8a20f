package zookeeper

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gocoord/coord/backend"
)

func TestParseNode(t *testing.T) {
	const guid = "0123456789abcdef0123456789abcdef"
	for name, want := range map[string]node{
		"_c_" + guid + "-lock-0000000007":                            {guid: guid, number: 7, claim: backend.Claim{Mode: backend.Exclusive}, ours: true},
		"_c_" + guid + "-lock--2147483648":                           {guid: guid, number: -2147483648, claim: backend.Claim{Mode: backend.Exclusive}, ours: true},
		"_c_" + guid + "-__READ__-0000000009":                        {guid: guid, number: -9, claim: backend.Claim{Mode: backend.Shared}, ours: true},
		"_c_" + guid + "-permit-2-5-0000000001":                      {guid: guid, number: 1, claim: backend.Claim{Mode: backend.Permit, Weight: 2, Limit: 5}, ours: true},
		"_c_" + guid + "-member-2147483647":                          {guid: guid, number: 2147483647, claim: backend.Claim{Mode: backend.Presence}, ours: true},
		"_c_2f1c6a0e-8b0f-4d3e-9a57-0e3f7f1c1b2d-__WRIT__0000000003": {guid: "2f1c6a0e-8b0f-4d3e-9a57-0e3f7f1c1b2d", number: 3, claim: backend.Claim{Mode: backend.Exclusive}},
		guid + "__lock__0000000004":                                  {guid: guid, number: 4, claim: backend.Claim{Mode: backend.Exclusive}, ours: true},
		guid + "__rlock__0000000004":                                 {guid: guid, number: 4, claim: backend.Claim{Mode: backend.Shared}, ours: true},
		"lock-0000000005":                                            {number: 5, claim: backend.Claim{Mode: backend.Exclusive}},
	} {
		got, ok := parseNode(name)
		want.name, want.suffix = name, got.suffix
		if !ok || got.guid != want.guid || got.number != want.number || got.ours != want.ours || got.claim.Mode != want.claim.Mode ||
			got.claim.Weight != want.claim.Weight || got.claim.Limit != want.claim.Limit {
			t.Errorf("parseNode(%q) = %+v, %v; want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "lock", "lock-", "lock-12", "x-0000000001", "0000000001", "leases", "lock-99999999999", "lock-4294967295"} {
		if got, ok := parseNode(name); ok {
			t.Errorf("parseNode(%q) = %+v, want none", name, got)
		}
	}
}

// The order goes on over the point where ZooKeeper's numbers wrap around.
func TestInLineWraps(t *testing.T) {
	want := []string{
		"lock-2147483645", "lock-2147483646", "lock-2147483647",
		"lock--2147483648", "lock--2147483647", "lock--2147483646",
	}
	for range 100 {
		mixed := slices.Clone(want)
		rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		for i, n := range inLine(mixed) {
			if n.name != want[i] {
				t.Fatalf("of %q number %d is %s, want %s", mixed, i, n.name, want[i])
			}
		}
	}
}
