package backend

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// entries makes a line from one letter each: E, S, p (presence), or a digit for
// a permit of this weight under the limit.
func entries(line string, limit int64) []Entry {
	out := make([]Entry, len(line))
	for i, c := range line {
		claim := Claim{}
		switch c {
		case 'E':
			claim.Mode = Exclusive
		case 'S':
			claim.Mode = Shared
		case 'p':
			claim.Mode = Presence
		default:
			claim = Claim{Mode: Permit, Weight: int64(c - '0'), Limit: limit}
		}
		out[i] = Entry{ID: fmt.Sprint(i), Token: uint64(i + 1), Claim: claim}
	}
	return out
}

func TestBlockers(t *testing.T) {
	tests := []struct {
		line     string
		limit    int64
		admitted string // * admitted, . waits
	}{
		{"E", 0, "*"},
		{"EE", 0, "*."},
		{"SS", 0, "**"},
		{"SES", 0, "*.."},
		{"ESSES", 0, "*...."},
		{"SSESS", 0, "**..."},
		{"pEp", 0, "*.*"},
		{"111", 2, "**."},
		{"212", 3, "**."},
		{"231", 4, "*.."},
		{"1E1", 4, "*.."},
		{"S1S", 1, "***"},
		{"1S1", 1, "**."},
	}
	for _, test := range tests {
		line := entries(test.line, test.limit)
		Admit(line)
		got := ""
		for _, e := range line {
			if e.Admitted {
				got += "*"
			} else {
				got += "."
			}
		}
		if got != test.admitted {
			t.Errorf("line %s, limit %d: admitted %s, want %s", test.line, test.limit, got, test.admitted)
		}
	}
}

// admitted is the rule in its plainest words, to hold Blockers to.
func admitted(line []Entry, i int) bool {
	me := line[i].Claim
	var used int64
	for _, e := range line[:i] {
		switch {
		case me.Mode == Presence:
			return true
		case me.Mode == Exclusive, e.Claim.Mode == Exclusive:
			return false
		case e.Claim.Mode == Permit:
			used += e.Claim.Weight
		}
	}
	return me.Mode != Permit || used+me.Weight <= me.Limit
}

// TestBlockersProperties grows and shrinks random lines. At each step there is
// one writer or none, permits stay under the limit, nobody is overtaken, who
// was admitted stays so, and whoever becomes admitted was watching somebody
// who left.
func TestBlockersProperties(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		const limit = 4
		var line []Entry
		next := 0
		for range 60 {
			watched := map[string][]string{}
			for i := range line {
				for _, b := range Blockers(line, i) {
					watched[line[i].ID] = append(watched[line[i].ID], b.ID)
				}
			}
			gone := ""
			if len(line) > 0 && rng.IntN(2) == 0 {
				i := rng.IntN(len(line))
				gone = line[i].ID
				line = slices.Delete(slices.Clone(line), i, i+1)
			} else {
				letter := string("ESp1234"[rng.IntN(7)])
				e := entries(letter, limit)[0]
				next++
				e.ID, e.Token = fmt.Sprint("n", next), uint64(next)
				line = append(slices.Clone(line), e)
			}
			checkLine(t, line, limit)
			for i := range line {
				was, waited := watched[line[i].ID]
				if now := len(Blockers(line, i)) == 0; now && waited && !slices.Contains(was, gone) {
					t.Fatalf("seed %d: %s was admitted when %q left, and watched only %q", seed, line[i].ID, gone, was)
				}
			}
		}
	}
}

func checkLine(t *testing.T, line []Entry, limit int64) {
	t.Helper()
	Admit(line)
	var exclusive, shared, permits int
	var used int64
	for i, e := range line {
		if e.Admitted != admitted(line, i) {
			t.Fatalf("entry %d of %+v: admitted %t, want %t", i, line, e.Admitted, admitted(line, i))
		}
		if !e.Admitted {
			continue
		}
		switch e.Claim.Mode {
		case Exclusive:
			exclusive++
		case Shared:
			shared++
		case Permit:
			permits++
			used += e.Claim.Weight
		}
	}
	if exclusive > 1 || exclusive == 1 && shared+permits > 0 {
		t.Fatalf("a writer is not alone: %+v", line)
	}
	if used > limit {
		t.Fatalf("%d permits of %d are out: %+v", used, limit, line)
	}
}

// TestBlockersWatchLittle shows that nobody but permits watches more than one
// entry, and these no more than the limit lets in.
func TestBlockersWatchLittle(t *testing.T) {
	line := entries("SSESSEE1SEE", 3)
	for i := range line {
		if n := len(Blockers(line, i)); n > 1 {
			t.Errorf("entry %d watches %d, want 1", i, n)
		}
	}
	line = entries("111111111", 3)
	for i := range line {
		if n := len(Blockers(line, i)); n > 3 {
			t.Errorf("permit %d watches %d, want at most 3", i, n)
		}
	}
}

func TestMismatch(t *testing.T) {
	line := append(entries("1", 3), entries("1", 4)...)
	if err := Mismatch(line, 0); err != nil {
		t.Errorf("the first in line: %v, want nil", err)
	}
	if err := Mismatch(line, 1); !errors.Is(err, ErrMismatch) {
		t.Errorf("the second, with another limit: %v, want ErrMismatch", err)
	}
	line[0].Claim.Limit = 0
	if err := Mismatch(line, 1); err != nil {
		t.Errorf("behind a foreign permit: %v, want nil", err)
	}
}

func BenchmarkBlockers(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		line := make([]Entry, n)
		for i := range line {
			line[i].Claim.Mode = Exclusive
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				Blockers(line, n-1)
			}
		})
	}
}
