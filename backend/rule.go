package backend

import "fmt"

// Blockers is the admission rule. It returns whom the claim at line[i] has to
// wait for; none means that it is admitted. "Ahead" counts those who wait,
// too, so admission is in order of arrival, adjacent readers run together, a
// waiting writer holds later readers back, and nobody starves:
//
//   - Exclusive waits for everyone ahead;
//   - Shared waits for every Exclusive ahead;
//   - Permit waits for every Exclusive ahead, and until the weights of the
//     permits ahead leave room under its Limit;
//   - Presence waits for nobody.
//
// The result is the smallest set that is enough to watch: as long as none of
// it leaves or changes its mode, the claim cannot be admitted; when one does,
// ask again. The closest ahead are chosen, since they tend to leave last.
//
// The order is that of the shared locks of the ZooKeeper recipes.
func Blockers(line []Entry, i int) []Entry {
	me := line[i].Claim
	if me.Mode == Presence {
		return nil
	}
	if me.Mode == Exclusive {
		if i == 0 {
			return nil
		}
		return line[i-1 : i : i]
	}
	for j := i - 1; j >= 0; j-- {
		if line[j].Claim.Mode == Exclusive {
			return line[j : j+1 : j+1]
		}
	}
	if me.Mode == Shared {
		return nil
	}
	used := me.Weight
	for j := i - 1; j >= 0; j-- {
		if line[j].Claim.Mode != Permit {
			continue
		}
		if used += max(line[j].Claim.Weight, 1); used > me.Limit {
			return permits(line[j:i])
		}
	}
	return nil
}

func permits(line []Entry) []Entry {
	var out []Entry
	for _, e := range line {
		if e.Claim.Mode == Permit {
			out = append(out, e)
		}
	}
	return out
}

// Admit fills in Admitted for the whole line.
func Admit(line []Entry) {
	for i := range line {
		line[i].Admitted = len(Blockers(line, i)) == 0
	}
}

// Mismatch reports as ErrMismatch that line[i] asks for permits under another
// limit than somebody ahead of it. The later one is told, so that a wrong
// configuration hurts nobody but its owner. Entries of foreign clients carry no
// limit and agree with any.
func Mismatch(line []Entry, i int) error {
	me := line[i].Claim
	if me.Mode != Permit {
		return nil
	}
	for _, e := range line[:i] {
		if c := e.Claim; c.Mode == Permit && c.Limit != 0 && c.Limit != me.Limit {
			return LimitMismatch(me.Limit, c.Limit)
		}
	}
	return nil
}

// LimitMismatch is the error of a claim under limit mine where another is in
// use.
func LimitMismatch(mine, theirs int64) error {
	return fmt.Errorf("%w: limit %d here, and %d is in use under this name; give all clients the same limit",
		ErrMismatch, mine, theirs)
}
