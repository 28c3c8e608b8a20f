package coord

import (
	"flag"
	"fmt"
	"testing"
)

// This file checks the barrier's algorithm, not its code: an explicit-state
// search visits every interleaving of the steps of Enter, its cancellation,
// Leave and tidy, with crashes and with stores whose answer is lost. Keep the
// steps the same as in barrier.go and round.go.
//
// Safety: a round has exactly N members, nobody is in two, and nobody who left
// with an error was ever counted. Liveness: there is no state in which enough
// wait, or one leaves, and nothing can move. Residue: without crashes the
// register is gone when everybody is.

const maxParties = 6 // entries in a model; a set of them is a bit mask

type modelPC uint8

const (
	pcIdle    modelPC = iota
	pcGuessed         // has seen the register, and is yet to arrive
	pcLoad
	pcObserve
	pcStore
	pcWait
	pcCancelLoad
	pcWithdraw
	pcInside
	pcLeft // has taken its entry out and waits for the others
	pcTidyObserve
	pcTidyStore
	pcTidyLoad
	pcDone
	pcCrashed
)

type modelRegister struct {
	version, mark uint8
	rounds        [3]uint8 // sets of members; 0: none
}

type modelProc struct {
	pc     modelPC
	looked bool
	failed bool  // left with an error
	mark   uint8 // when it last looked
	line   uint8 // as it last observed it
	round  uint8 // that it entered
	reg    modelRegister
}

type modelState struct {
	procs    [maxParties]modelProc
	line     uint8
	reg      modelRegister
	versions uint8
	ever     uint8 // all that were ever counted
	crashes  uint8
	cancels  uint8
	losses   uint8
	guesses  uint8
	broken   bool // somebody was counted twice
}

// A model says how many take part, and which of the two guards are in force.
type model struct {
	n, procs                 int
	crashes, cancels, losses uint8
	guesses                  uint8 // begin with a register seen earlier
	noAlive, noWithdraw      bool
}

func bit(i int) uint8 { return 1 << i }

func (r modelRegister) seating(e uint8) uint8 {
	for _, m := range r.rounds {
		if m&e != 0 {
			return m
		}
	}
	return 0
}

// choose returns the first n entries after the mark, or 0.
func (m model) choose(line, mark uint8) (set uint8, last uint8) {
	n := 0
	for i := range m.procs {
		if line&bit(i) != 0 && uint8(i+1) > mark {
			set |= bit(i)
			if n++; n == m.n {
				return set, uint8(i + 1)
			}
		}
	}
	return 0, 0
}

// store closes a round as process i planned it, unless a guard forbids.
func (m model) store(s *modelState, p *modelProc) (set uint8) {
	set, last := m.choose(p.line, p.reg.mark)
	if s.reg.version != p.reg.version || !m.noAlive && s.line&set != set {
		return 0
	}
	next := modelRegister{version: s.versions + 1, mark: last}
	s.versions++
	k := 0
	for _, old := range p.reg.rounds {
		if old&p.line != 0 {
			next.rounds[k] = old
			k++
		}
	}
	next.rounds[k] = set
	s.broken = s.broken || s.ever&set != 0
	s.reg, s.ever = next, s.ever|set
	return set
}

// steps calls visit with every state that one step leads to. Trouble says that
// the step is a crash, a cancellation or a lost answer, which nobody can count
// on.
func (m model) steps(s modelState, visit func(next modelState, trouble bool)) {
	for i := range m.procs {
		p := s.procs[i]
		if p.pc == pcDone || p.pc == pcCrashed {
			continue
		}
		if p.pc <= pcGuessed {
			if p.pc == pcIdle && s.guesses < m.guesses {
				next := s
				next.guesses++
				next.procs[i] = modelProc{pc: pcGuessed, reg: s.reg}
				visit(next, false)
			}
			if i == 0 || s.procs[i-1].pc > pcGuessed { // they are alike: arrive in order
				next := s
				next.line |= bit(i)
				next.procs[i].pc = pcLoad
				if p.pc == pcGuessed {
					next.procs[i].pc = pcObserve
				}
				visit(next, false)
			}
			continue
		}
		if s.crashes < m.crashes {
			next := s
			next.crashes++
			next.line &^= bit(i)
			next.procs[i] = modelProc{pc: pcCrashed}
			visit(next, true)
		}
		if s.cancels < m.cancels && p.pc >= pcLoad && p.pc <= pcWait {
			next := s
			next.cancels++
			next.procs[i] = modelProc{pc: pcCancelLoad}
			visit(next, true)
		}
		m.step(s, i, visit)
	}
}

// forget drops what no longer matters, so that states meet.
func (p *modelProc) forget() {
	switch p.pc {
	case pcDone:
		*p = modelProc{pc: pcDone, failed: p.failed}
	case pcInside, pcLeft, pcTidyObserve, pcTidyStore, pcTidyLoad:
		*p = modelProc{pc: p.pc, failed: p.failed, looked: p.looked && p.pc == pcLeft, round: p.round,
			reg: modelRegister{version: p.reg.version}}
		if p.pc > pcLeft {
			p.round = 0
		}
	case pcLoad, pcCancelLoad:
		p.reg, p.line = modelRegister{}, 0
	case pcWait, pcWithdraw:
		p.reg, p.line = modelRegister{version: p.reg.version}, 0
	}
}

func (m model) step(s modelState, i int, visit func(modelState, bool)) {
	me, next := bit(i), s
	p := &next.procs[i]
	switch p.pc {
	case pcLoad, pcCancelLoad:
		p.reg = s.reg
		switch round := s.reg.seating(me); {
		case round != 0:
			p.pc, p.round = pcInside, round
		case p.pc == pcCancelLoad:
			p.pc = pcWithdraw
		case p.looked && p.mark == s.reg.mark:
			p.pc = pcWait
		default:
			p.pc = pcObserve
		}
	case pcObserve:
		p.line = s.line
		if set, _ := m.choose(s.line, p.reg.mark); set != 0 {
			p.pc = pcStore
		} else {
			p.pc, p.looked, p.mark = pcWait, true, p.reg.mark
		}
	case pcStore:
		set := m.store(&next, p)
		p.pc = pcLoad
		if set != 0 && s.losses < m.losses { // done, and the answer lost
			lost := next
			lost.losses++
			lost.procs[i].forget()
			visit(lost, true)
		}
		if set&me != 0 {
			p.pc, p.round, p.reg = pcInside, set, next.reg
		}
	case pcWait:
		if s.reg.version == p.reg.version {
			return
		}
		p.pc = pcLoad
	case pcWithdraw:
		if s.reg.version != p.reg.version && !m.noWithdraw {
			p.pc = pcCancelLoad
			break
		}
		next.line &^= me
		p.pc, p.failed = pcTidyObserve, true
	case pcInside:
		next.line &^= me
		p.pc, p.looked = pcLeft, false
	case pcLeft:
		switch {
		case s.line&p.round != 0 && p.looked:
			return
		case s.line&p.round != 0:
			p.looked = true
		case p.looked:
			p.pc = pcTidyLoad
		case s.line != 0:
			p.pc = pcDone
		default:
			p.pc = pcTidyStore
		}
	case pcTidyObserve:
		p.pc = pcDone
		if s.line == 0 {
			p.pc = pcTidyStore
		}
	case pcTidyStore:
		p.pc = pcTidyLoad
		if s.reg.version == p.reg.version {
			next.reg = modelRegister{}
			p.pc = pcDone
		}
	case pcTidyLoad:
		p.reg, p.pc = s.reg, pcTidyObserve
		if s.reg.version == 0 {
			p.pc = pcDone
		}
	}
	p.forget()
	visit(next, false)
}

// wrong says which property a state violates. Moves says whether it has a step
// that is no trouble.
func (m model) wrong(s modelState, moves bool) string {
	if s.broken {
		return "somebody was counted twice"
	}
	waiting, busy := 0, 0
	for i, p := range s.procs[:m.procs] {
		if p.failed && s.ever&bit(i) != 0 {
			return "somebody left with an error and was counted"
		}
		if p.pc == pcWait {
			waiting++
		}
		if p.pc != pcDone && p.pc != pcCrashed && p.pc != pcWait {
			busy++
		}
	}
	switch {
	case moves:
		return ""
	case waiting >= m.n || busy > 0:
		return "nothing can move"
	case waiting == 0 && m.crashes == 0 && s.reg.version != 0:
		return "the register stays behind"
	}
	return ""
}

func (m model) search() (states int, fault string) {
	start := modelState{}
	seen := map[modelState]struct{}{start: {}}
	for queue := []modelState{start}; len(queue) > 0; {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		moves := false
		m.steps(s, func(next modelState, trouble bool) {
			moves = moves || !trouble
			if _, old := seen[next]; !old {
				seen[next] = struct{}{}
				queue = append(queue, next)
			}
		})
		if why := m.wrong(s, moves); why != "" {
			return len(seen), fmt.Sprintf("%s: %+v", why, s)
		}
	}
	return len(seen), ""
}

var largeModels = flag.Bool("large-models", false, "visit millions of states of the barrier; takes a minute")

func TestBarrierModel(t *testing.T) {
	models := []model{
		{n: 1, procs: 3, crashes: 1, cancels: 1, losses: 1},
		{n: 2, procs: 2, crashes: 2, cancels: 2, losses: 1},
		{n: 2, procs: 3, crashes: 1, cancels: 2, losses: 1},
		{n: 3, procs: 4, cancels: 1},
		{n: 2, procs: 4, crashes: 1, cancels: 1},
		{n: 3, procs: 4, crashes: 1, cancels: 1, losses: 1},
		{n: 1, procs: 3, crashes: 1, cancels: 1, losses: 1, guesses: 2},
		{n: 2, procs: 3, crashes: 1, cancels: 1, losses: 1, guesses: 3},
		{n: 2, procs: 4, cancels: 1, guesses: 2},
	}
	if *largeModels {
		models = append(models,
			model{n: 2, procs: 4, crashes: 2, cancels: 2, losses: 1},
			model{n: 2, procs: 4, crashes: 1, cancels: 1, losses: 1, guesses: 2},
			model{n: 3, procs: 4, crashes: 1, cancels: 1, guesses: 2},
			model{n: 2, procs: 5, cancels: 1},
			model{n: 2, procs: 5, crashes: 1},
			model{n: 3, procs: 5, crashes: 1, cancels: 1})
	}
	for _, m := range models {
		t.Run(fmt.Sprintf("%+v", m), func(t *testing.T) {
			t.Parallel()
			states, fault := m.search()
			if fault != "" {
				t.Fatal(fault)
			}
			t.Logf("%d states", states)
		})
	}
}

// TestBarrierModelNeedsGuards shows that the search finds what it is for: each
// guard, left out, is missed.
func TestBarrierModelNeedsGuards(t *testing.T) {
	for _, m := range []model{
		{n: 2, procs: 3, cancels: 1, noAlive: true},
		{n: 2, procs: 4, cancels: 1, noWithdraw: true},
	} {
		if _, fault := m.search(); fault == "" {
			t.Errorf("%+v: no fault found", m)
		} else {
			t.Logf("%+v: %.80s", m, fault)
		}
	}
}
