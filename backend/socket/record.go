//go:build linux || darwin

package socket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/gocoord/coord/backend"
)

// A journal begins with a header:
//
//	"coordj1\n"   8 bytes
//	mark          8 bytes: every number counted so far is below it
//	boot          40 bytes: when the host was started
//
// Then come records:
//
//	state         1 byte: dead, live, or a claim that was downgraded
//	kind          1 byte: a claim or a register
//	length        4 bytes: of the body
//	checksum      4 bytes: CRC-32C of kind, length and body
//
// and a body of that length.
const (
	magic        = "coordj1\n"
	bootSize     = 40
	headerSize   = int64(len(magic) + 8 + bootSize)
	recordHead   = 10
	recordLimit  = backend.MaxRegister + backend.MaxData + 4<<10
	journalLimit = 1 << 30
)

// States of a record. They are not part of the checksum.
const (
	stateDead   byte = 'x'
	stateLive   byte = '+'
	stateShared byte = 's' // an Exclusive claim that was downgraded
)

// Kinds of records.
const (
	recordClaim    byte = 'c'
	recordRegister byte = 'r'
)

type header struct {
	mark uint64
	boot string
}

func (h *header) encode() []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	b = binary.LittleEndian.AppendUint64(b, h.mark)
	boot := make([]byte, bootSize)
	copy(boot, h.boot)
	return append(b, boot...)
}

func parseHeader(b []byte) (header, bool) {
	if int64(len(b)) < headerSize || string(b[:len(magic)]) != magic {
		return header{}, false
	}
	b = b[len(magic):]
	return header{mark: binary.LittleEndian.Uint64(b), boot: string(bytes.TrimRight(b[8:8+bootSize], "\x00"))}, true
}

// A record is what the journal says of a claim or a register.
type record struct {
	state  byte
	kind   byte
	author author
	token  uint64 // of the claim; or the version of the register
	place  backend.Place
	claim  backend.Claim
	since  time.Time
	data   []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r *record) encode(b []byte) []byte {
	start := len(b)
	b = append(b, stateLive, r.kind, 0, 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.author.member))
	b = binary.AppendUvarint(b, r.author.number)
	b = binary.AppendUvarint(b, r.token)
	b = appendPlace(b, r.place)
	if r.kind == recordClaim {
		b = appendClaim(b, r.claim)
		b = binary.AppendVarint(b, nanos(r.since))
	} else {
		b = appendData(b, r.data)
	}
	binary.LittleEndian.PutUint32(b[start+2:], uint32(len(b)-start-recordHead))
	binary.LittleEndian.PutUint32(b[start+6:], checksum(b[start:]))
	return b
}

func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[1:6], castagnoli), castagnoli, b[recordHead:])
}

var (
	errTorn    = errors.New("the last record is not whole")
	errDamaged = errors.New("a record is damaged")
)

// parseRecord reads the record at the start of b, and says how long it is.
func parseRecord(b []byte) (record, int, error) {
	if len(b) < recordHead {
		return record{}, 0, errTorn
	}
	length := int(binary.LittleEndian.Uint32(b[2:]))
	if length > recordLimit {
		return record{}, 0, errDamaged
	}
	size := recordHead + length
	if len(b) < size {
		return record{}, 0, errTorn
	}
	b = b[:size]
	if checksum(b) != binary.LittleEndian.Uint32(b[6:]) {
		return record{}, 0, errDamaged
	}
	r := record{state: b[0], kind: b[1]}
	if r.state == stateDead {
		return r, size, nil // most of them are, and nobody needs what they say
	}
	in := reader{b: b[recordHead:]}
	r.author = author{memberID(in.uint64()), in.uvarint()}
	r.token, r.place = in.uvarint(), in.place()
	switch r.kind {
	case recordClaim:
		r.claim, r.since = in.claim(), in.time()
		if r.state == stateShared {
			r.claim.Mode = backend.Shared
		}
	case recordRegister:
		r.data = in.data()
	default:
		in.fail()
	}
	if in.end() != nil {
		return record{}, 0, errDamaged
	}
	return r, size, nil
}

// load reads the journal, and reports whether there was none. What a server
// that died in the middle of writing left at the end is cut off: nobody was
// told of it.
func (j *journal) load() (fresh bool, err error) {
	fi, err := j.file.Stat()
	if err != nil {
		return false, err
	}
	if fi.Size() > journalLimit {
		return false, fmt.Errorf("%w: journal %s has %d bytes, which no server wrote; remove it if nobody uses the socket", backend.ErrInvalid, j.at.journal(), fi.Size())
	}
	all, err := io.ReadAll(io.NewSectionReader(j.file, 0, fi.Size()))
	if err != nil {
		return false, err
	}
	j.end = headerSize
	h, ok := parseHeader(all)
	if !ok {
		if len(all) >= int(headerSize) {
			return false, fmt.Errorf("%w: %s is no journal of this version; remove it if nobody uses the socket", backend.ErrInvalid, j.at.journal())
		}
		return true, j.file.Truncate(0)
	}
	j.mark = h.mark
	return false, j.scan(all, h.boot == bootID())
}

// scan reads the records. Damage is an error while the claims may be somebody's;
// after a restart of the host there are no claims, and what is readable counts.
func (j *journal) scan(all []byte, sameBoot bool) error {
	for j.end < int64(len(all)) {
		r, size, err := parseRecord(all[j.end:])
		if errors.Is(err, errDamaged) && sameBoot {
			return fmt.Errorf("%w: journal %s at byte %d: %w; who holds what is not known, so end all processes that use the socket and remove it", backend.ErrUnavailable, j.at.journal(), j.end, err)
		}
		if err != nil {
			return j.file.Truncate(j.end)
		}
		it := &item{off: j.end, size: int64(size), claim: r.kind == recordClaim, place: r.place, state: r.state, author: r.author, token: r.token, record: r}
		j.end += it.size
		if r.state == stateDead {
			continue
		}
		j.items[it] = struct{}{}
		j.live += it.size
		if it.claim {
			continue
		}
		if old := j.regs[it.place]; old != nil {
			j.drop(old)
		}
		j.regs[it.place] = it
	}
	return nil
}
