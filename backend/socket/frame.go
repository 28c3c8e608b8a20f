//go:build linux || darwin

package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gocoord/coord/backend"
)

// A frame on the wire is its length in four bytes, little endian, an op, the
// number of the request, and what the op needs: numbers as varints, texts and
// data with their lengths. A client greets with the version of all this, and a
// server that speaks another one says so.
const protocol = 1

// Limits of frames. A client's largest is a Store of a full register; a
// server's is the Roster of a long line.
const (
	maxRequest = backend.MaxRegister + 1<<20
	maxReply   = 1 << 30
)

type op uint8

// What clients ask for, and what servers answer. New ones go to the end: an
// opFail has to mean the same in all versions, so that one can say that it is
// not the other.
const (
	opHello     op = iota + 1 // member and the claims it goes on with
	opAcquire                 // answered when admitted
	opDrop                    // a release, or the end of a wait
	opDowngrade               //
	opWithdraw                //
	opObserve                 //
	opGone                    //
	opLoad                    //
	opStore                   //
	opCancel                  // of an opObserve, opGone or opLoad; not answered
	opPing                    //
	opBye                     // the client closes
	opOK                      // an answer
	opFail                    // an answer: an error
	opPlaces                  //
)

// A request is what a client asks of a server. Its number is that of its call;
// a claim goes by the number of its opAcquire for good.
type request struct {
	op     op
	number uint64
	place  backend.Place
	claim  backend.Claim   // opAcquire
	since  time.Time       // opAcquire
	seq    uint64          // the claim, for those about one
	ver    backend.Version // what was seen last, or has to be still so
	id     string          // opGone
	data   []byte          // opStore; nil removes
	alive  []string        // opStore
	member memberID        // opHello
	seqs   []uint64        // opHello: the claims that go on
}

// A reply is what a server answers to the request of that number.
type reply struct {
	op     op
	number uint64
	token  uint64          // opAcquire
	ver    backend.Version // opLoad, opStore, opObserve
	data   []byte          // opLoad
	roster []backend.Entry // opObserve
	held   []uint64        // opHello: the claims that the server knows and has admitted
	places []backend.Place // opPlaces
	code   code            // opFail
	text   string          // opFail
}

// appendFrame appends a frame whose body is made by fill.
func appendFrame(b []byte, o op, number uint64, fill func([]byte) []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(o))
	b = binary.AppendUvarint(b, number)
	if fill != nil {
		b = fill(b)
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

func (q *request) append(b []byte) []byte {
	return appendFrame(b, q.op, q.number, func(b []byte) []byte {
		switch q.op {
		case opHello:
			b = append(b, protocol)
			b = binary.LittleEndian.AppendUint64(b, uint64(q.member))
			b = appendNumbers(b, q.seqs)
		case opAcquire:
			b = appendPlace(b, q.place)
			b = appendClaim(b, q.claim)
			b = binary.AppendVarint(b, nanos(q.since))
		case opDrop, opDowngrade:
			b = binary.AppendUvarint(b, q.seq)
		case opWithdraw:
			b = binary.AppendUvarint(b, q.seq)
			b = appendText(b, string(q.ver))
		case opObserve, opLoad:
			b = appendPlace(b, q.place)
			b = appendText(b, string(q.ver))
		case opGone:
			b = appendPlace(b, q.place)
			b = appendText(b, q.id)
		case opStore:
			b = appendPlace(b, q.place)
			b = appendText(b, string(q.ver))
			b = appendData(b, q.data)
			b = binary.AppendUvarint(b, uint64(len(q.alive)))
			for _, id := range q.alive {
				b = appendText(b, id)
			}
		}
		return b
	})
}

func (r *reply) append(b []byte) []byte {
	return appendFrame(b, r.op, r.number, func(b []byte) []byte {
		if r.op == opFail {
			b = append(b, byte(r.code))
			return appendText(b, r.text)
		}
		b = binary.AppendUvarint(b, r.token)
		b = appendText(b, string(r.ver))
		b = appendData(b, r.data)
		b = appendNumbers(b, r.held)
		b = binary.AppendUvarint(b, uint64(len(r.roster)))
		for i := range r.roster {
			b = appendEntry(b, &r.roster[i])
		}
		b = binary.AppendUvarint(b, uint64(len(r.places)))
		for _, p := range r.places {
			b = appendPlace(b, p)
		}
		return b
	})
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendData keeps nil and empty apart.
func appendData(b, data []byte) []byte {
	if data == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(data))+1)
	return append(b, data...)
}

func appendNumbers(b []byte, ns []uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(ns)))
	for _, n := range ns {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func appendPlace(b []byte, p backend.Place) []byte {
	b = append(b, byte(p.Kind))
	return appendText(b, p.Name)
}

func appendClaim(b []byte, c backend.Claim) []byte {
	noWait := byte(0)
	if c.NoWait {
		noWait = 1
	}
	b = append(b, byte(c.Mode), noWait)
	b = binary.AppendVarint(b, c.Weight)
	b = binary.AppendVarint(b, c.Limit)
	b = appendText(b, c.Owner)
	return appendData(b, c.Data)
}

func appendEntry(b []byte, e *backend.Entry) []byte {
	admitted := byte(0)
	if e.Admitted {
		admitted = 1
	}
	b = append(b, admitted)
	b = binary.AppendUvarint(b, e.Token)
	b = appendText(b, e.ID)
	b = binary.AppendVarint(b, nanos(e.Since))
	return appendClaim(b, e.Claim)
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

var errFrame = errors.New("a frame that this version does not understand")

// parseRequest reads the body of a frame that a client sent. What it returns
// keeps nothing of b.
func parseRequest(b []byte) (request, error) {
	r := reader{b: b}
	q := request{op: op(r.byte()), number: r.uvarint()}
	switch q.op {
	case opHello:
		if v := r.byte(); r.err == nil && v != protocol {
			return q, fmt.Errorf("the client speaks version %d of the protocol, and this server version %d; let all use the same release of coord", v, protocol)
		}
		q.member = memberID(r.uint64())
		q.seqs = r.numbers()
	case opAcquire:
		q.place, q.claim, q.since = r.place(), r.claim(), r.time()
	case opDrop, opDowngrade:
		q.seq = r.uvarint()
	case opWithdraw:
		q.seq, q.ver = r.uvarint(), backend.Version(r.text())
	case opObserve, opLoad:
		q.place, q.ver = r.place(), backend.Version(r.text())
	case opGone:
		q.place, q.id = r.place(), r.text()
	case opStore:
		q.place, q.ver, q.data = r.place(), backend.Version(r.text()), r.data()
		for range r.count() {
			q.alive = append(q.alive, r.text())
		}
	case opCancel, opPing, opBye, opPlaces:
	default:
		r.fail()
	}
	return q, r.end()
}

// parseReply reads the body of a frame that a server sent.
func parseReply(b []byte) (reply, error) {
	r := reader{b: b}
	a := reply{op: op(r.byte()), number: r.uvarint()}
	switch a.op {
	case opFail:
		a.code, a.text = code(r.byte()), r.text()
	case opOK:
		a.token, a.ver, a.data, a.held = r.uvarint(), backend.Version(r.text()), r.data(), r.numbers()
		for range r.count() {
			a.roster = append(a.roster, r.entry())
		}
		for range r.count() {
			a.places = append(a.places, r.place())
		}
	default:
		r.fail()
	}
	return a, r.end()
}

// A reader takes a body apart. After its first error it returns zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() { r.err, r.b = errFrame, nil }

// end reports what went wrong. Bytes that are left over are wrong, too.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail()
	}
	return r.err
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uint64() uint64 {
	return binary.LittleEndian.Uint64(append(r.take(8), make([]byte, 8)...))
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

// take returns a view of the next n bytes.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// count reads how many elements follow. Each has at least a byte, which bounds
// what a false count can make us allocate.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return n
}

func (r *reader) text() string { return string(r.take(r.uvarint())) }

func (r *reader) data() []byte {
	n := r.uvarint()
	if n == 0 || n == math.MaxUint64 {
		return nil
	}
	return append([]byte{}, r.take(n-1)...)
}

func (r *reader) numbers() []uint64 {
	var ns []uint64
	for range r.count() {
		ns = append(ns, r.uvarint())
	}
	return ns
}

func (r *reader) time() time.Time {
	n := r.varint()
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

func (r *reader) place() backend.Place {
	return backend.Place{Kind: backend.Kind(r.byte()), Name: r.text()}
}

func (r *reader) claim() backend.Claim {
	return backend.Claim{
		Mode: backend.Mode(r.byte()), NoWait: r.byte() != 0, Weight: r.varint(), Limit: r.varint(), Owner: r.text(), Data: r.data(),
	}
}

func (r *reader) entry() backend.Entry {
	e := backend.Entry{Admitted: r.byte() != 0, Token: r.uvarint(), ID: r.text()}
	e.Since, e.Claim = r.time(), r.claim()
	return e
}
