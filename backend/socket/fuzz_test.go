//go:build linux || darwin

package socket

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

var (
	aPlace   = backend.Place{Kind: backend.Barrier, Name: "a/b"}
	aClaim   = backend.Claim{Mode: backend.Permit, Weight: 2, Limit: 3, Owner: "me", Data: []byte{}, NoWait: true}
	requests = []request{
		{op: opHello, member: 1 << 63, seqs: []uint64{1, 2, 1 << 40}},
		{op: opAcquire, number: 1, place: aPlace, claim: aClaim, since: time.Unix(1, 2)},
		{op: opDrop, number: 2, seq: 3}, {op: opDowngrade, number: 2, seq: 3}, {op: opWithdraw, number: 4, seq: 3, ver: "v"},
		{op: opObserve, number: 300, place: aPlace, ver: "x"}, {op: opLoad, place: aPlace}, {op: opGone, place: aPlace, id: "id"},
		{op: opStore, number: 1 << 60, place: aPlace, ver: "0", data: []byte("data"), alive: []string{"a", "b"}},
		{op: opStore, place: aPlace}, {op: opCancel, number: 5}, {op: opPing}, {op: opBye, number: 9},
		{op: opPlaces, number: 10},
	}
	replies = []reply{
		{op: opOK, number: 1, token: 1 << 62}, {op: opOK, ver: "v", data: []byte{}}, {op: opOK, held: []uint64{4, 5}},
		{op: opOK, roster: []backend.Entry{{ID: "x", Token: 7, Claim: aClaim, Since: time.Unix(3, 4), Admitted: true}, {ID: "y"}}},
		{op: opOK, number: 5, places: []backend.Place{aPlace, {Kind: backend.Latch}}},
		{op: opFail, number: 3, code: 2, text: "no"},
	}
)

func TestFrames(t *testing.T) {
	for _, q := range requests {
		got, err := parseRequest(q.append(nil)[4:])
		if err != nil || !reflect.DeepEqual(got, q) {
			t.Errorf("%+v came as %+v, %v", q, got, err)
		}
	}
	for _, r := range replies {
		got, err := parseReply(r.append(nil)[4:])
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v came as %+v, %v", r, got, err)
		}
	}
}

// FuzzRequest: whatever a client sends is refused, or means what it says.
func FuzzRequest(f *testing.F) {
	for _, q := range requests {
		f.Add(q.append(nil)[4:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := parseRequest(b)
		if err != nil {
			return
		}
		again, err := parseRequest(q.append(nil)[4:])
		if err != nil || !reflect.DeepEqual(again, q) {
			t.Errorf("%+v came again as %+v, %v", q, again, err)
		}
	})
}

func FuzzReply(f *testing.F) {
	for _, r := range replies {
		f.Add(r.append(nil)[4:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseReply(b)
		if err != nil {
			return
		}
		again, err := parseReply(r.append(nil)[4:])
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v came again as %+v, %v", r, again, err)
		}
	})
}

// FuzzRecord: a journal that holds anything at all is read or refused.
func FuzzRecord(f *testing.F) {
	for _, r := range []record{
		{kind: recordClaim, author: author{1, 2}, token: 3, place: aPlace, claim: aClaim, since: time.Unix(5, 6)},
		{kind: recordRegister, author: author{1, 2}, token: 3, place: aPlace, data: []byte("x")},
	} {
		f.Add(r.encode(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, size, err := parseRecord(b)
		if err != nil || r.state == stateDead {
			return
		}
		if size > len(b) {
			t.Fatalf("a record of %d bytes in %d", size, len(b))
		}
		if r.state == stateShared || r.since.Equal(time.Time{}) {
			return
		}
		again, _, err := parseRecord(r.encode(nil))
		again.state = r.state
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v came again as %+v, %v", r, again, err)
		}
	})
}

// TestCompaction: a journal that is used for long stays small, and nothing
// that counts is lost.
func TestCompaction(t *testing.T) {
	path, server, client := pair(t)
	kept := acquired(t, client, "kept")
	place := backend.Place{Kind: backend.Latch, Name: "l"}
	data := bytes.Repeat([]byte("x"), 32<<10)
	version := backend.Version("0")
	for range 40 {
		v, err := client.Store(t.Context(), place, data, version)
		if err != nil {
			t.Fatal(err)
		}
		version = v
		for range 20 {
			if err := acquired(t, client, "a").Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	j := server.server.Load().journal
	j.mu.Lock()
	end, live := j.end, j.live
	j.mu.Unlock()
	if end > 2*smallJournal || live > int64(len(data))+1000 {
		t.Errorf("the journal has %d bytes, of which %d count", end, live)
	}
	server.crash()
	v, err := client.Load(t.Context(), place, "")
	if err != nil || !bytes.Equal(v.Data, data) || v.Version != version {
		t.Errorf("after a succession the register has %d bytes at %q, %v; want %d at %q", len(v.Data), v.Version, err, len(data), version)
	}
	still(t, "the claim", kept)
	late := opened(t, path)
	inLine(t, late, "kept", 1)
}
