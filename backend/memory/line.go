package memory

import (
	"github.com/gocoord/coord/backend"
)

// A line is the queue of one place, with the rule of backend.Blockers kept up
// to date at each step, so that no step depends on the length of the line:
//
//   - an Exclusive is admitted when it is at the head;
//   - what is behind the first Exclusive waits, except Presence; so when the
//     first Exclusive goes, only the stretch up to the next one is looked at,
//     and each entry is in that stretch once in its life;
//   - of the Permits ahead of the first Exclusive those admitted come first,
//     since all have one limit; so only the first that waits is ever asked.
type line struct {
	shard  *shard
	key    key
	parked bool // in shard.idle

	all        list // everybody, in order of arrival
	exclusives list // the Exclusives among them
	permits    list // the Permits among them
	nextPermit *lease
	used       int64 // weights of the admitted Permits
	limit      int64 // of the Permits in line

	n       int
	version uint64        // of the last change to the line
	watch   chan struct{} // closed at the next change; nil if nobody waits for it

	register        []byte
	registerVersion uint64        // 0: never stored, or removed
	registerTag     any           // whose Store made it, on a Host
	registerWatch   chan struct{} // as watch
	readers         int           // calls that wait for watch or registerWatch
}

func (ln *line) empty() bool { return ln.n == 0 && ln.register == nil && ln.readers == 0 }

// settle lets an empty line go.
func (ln *line) settle() {
	if ln.empty() {
		ln.shard.retire(ln)
	}
}

// admits says whether a claim at the end of the line would be admitted.
func (ln *line) admits(c backend.Claim) bool {
	switch c.Mode {
	case backend.Presence:
		return true
	case backend.Exclusive:
		return ln.n == 0
	case backend.Shared:
		return ln.exclusives.head == nil
	default:
		return ln.exclusives.head == nil && ln.nextPermit == nil && ln.used+c.Weight <= c.Limit
	}
}

// push appends l, which waits until it is admitted.
func (ln *line) push(l *lease) {
	ln.n++
	ln.all.push(l, &l.links)
	switch l.claim.Mode {
	case backend.Exclusive:
		ln.exclusives.push(l, &l.classLinks)
	case backend.Permit:
		ln.limit = l.claim.Limit
		ln.permits.push(l, &l.classLinks)
		if ln.nextPermit == nil {
			ln.nextPermit = l
		}
	}
}

// admit marks l as admitted.
func (ln *line) admit(l *lease) {
	l.state = held
	if l.claim.Mode == backend.Permit {
		ln.used += l.claim.Weight
		ln.nextPermit = l.classLinks.next
	}
}

// drop takes l out of line and returns whom that admits, chained to woken.
func (ln *line) drop(l, woken *lease) *lease {
	next := l.links.next
	ln.n--
	ln.all.drop(l, &l.links)
	switch l.claim.Mode {
	case backend.Exclusive:
		first := ln.exclusives.head == l
		ln.exclusives.drop(l, &l.classLinks)
		if first {
			woken = ln.open(next, woken)
		}
	case backend.Permit:
		if ln.nextPermit == l {
			ln.nextPermit = l.classLinks.next
		} else if l.state == held {
			ln.used -= l.claim.Weight
		}
		ln.permits.drop(l, &l.classLinks)
		woken = ln.permitted(woken)
	}
	return ln.headed(woken)
}

// open admits the Shared entries from l up to the next Exclusive, and the
// Permits there is room for.
func (ln *line) open(l, woken *lease) *lease {
	for ; l != nil && l.claim.Mode != backend.Exclusive; l = l.links.next {
		if l.claim.Mode == backend.Shared {
			woken = ln.grant(l, woken)
		}
	}
	return ln.permitted(woken)
}

// permitted admits the Permits that there is room for by now.
func (ln *line) permitted(woken *lease) *lease {
	for p := ln.nextPermit; p != nil && ln.used+p.claim.Weight <= ln.limit; p = ln.nextPermit {
		if x := ln.exclusives.head; x != nil && x.token < p.token {
			break
		}
		woken = ln.grant(p, woken)
	}
	return woken
}

// headed admits an Exclusive that has come to the head.
func (ln *line) headed(woken *lease) *lease {
	if l := ln.all.head; l != nil && l.claim.Mode == backend.Exclusive {
		return ln.grant(l, woken)
	}
	return woken
}

func (ln *line) grant(l, woken *lease) *lease {
	if l.state != waiting {
		return woken
	}
	ln.admit(l)
	return l.wakeAfter(woken)
}

// downgrade turns the Exclusive at the head into a Shared one and returns whom
// that admits.
func (ln *line) downgrade(l *lease) *lease {
	ln.exclusives.drop(l, &l.classLinks)
	l.claim.Mode = backend.Shared
	return ln.open(l.links.next, nil)
}

// changed wakes those who observe the line.
func (ln *line) changed() {
	ln.version = ln.shard.tick()
	if ln.watch != nil {
		close(ln.watch)
		ln.watch = nil
	}
}

// A list is an intrusive doubly linked list.
type list struct{ head, tail *lease }

type links struct{ next, prev *lease }

func (q *list) push(l *lease, at *links) {
	at.prev = q.tail
	if q.tail == nil {
		q.head = l
	} else {
		q.linksOf(q.tail, l, at).next = l
	}
	q.tail = l
}

func (q *list) drop(l *lease, at *links) {
	if at.prev == nil {
		q.head = at.next
	} else {
		q.linksOf(at.prev, l, at).next = at.next
	}
	if at.next == nil {
		q.tail = at.prev
	} else {
		q.linksOf(at.next, l, at).prev = at.prev
	}
	*at = links{}
}

// linksOf returns other's links of the same kind as those of l at.
func (q *list) linksOf(other, l *lease, at *links) *links {
	if at == &l.links {
		return &other.links
	}
	return &other.classLinks
}
