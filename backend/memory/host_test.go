package memory

import (
	"errors"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
)

// records is a Recorder that remembers what it was told.
type records struct {
	log    []string
	refuse error
}

func (r *records) Enter(e *Entry) error {
	r.log = append(r.log, "enter "+e.Tag.(string))
	return r.refuse
}
func (r *records) Leave(e *Entry)     { r.log = append(r.log, "leave "+e.Tag.(string)) }
func (r *records) Downgrade(e *Entry) { r.log = append(r.log, "downgrade "+e.Tag.(string)) }
func (r *records) Store(backend.Place, []byte, uint64, any) error {
	r.log = append(r.log, "store")
	return r.refuse
}
func (r *records) Reserve(count uint64) uint64 { return count + 100 }

// TestHost: what is entered is recorded before it counts, admitted by a
// callback, and restored in its order.
func TestHost(t *testing.T) {
	r := new(records)
	h := NewHost(r, 1000, 1005)
	defer h.Close()
	place := backend.Place{Kind: backend.RWMutex, Name: "a"}
	held, now := h.Restore(place, backend.Claim{Mode: backend.Exclusive}, 7, time.Now(), "first", func() { t.Error("admitted twice") })
	if !now || held.Token() != 7 {
		t.Errorf("the restored one is admitted: %t, with token %d; want true and 7", now, held.Token())
	}
	admitted := 0
	next, now, err := h.Enter(place, backend.Claim{Mode: backend.Shared}, "second", func() { admitted++ })
	if err != nil || now || next.Token() <= 1000 {
		t.Fatalf("the next one is admitted: %t, with token %d, %v; want false, and more than 1000", now, next.Token(), err)
	}
	gone, _, err := h.Enter(place, backend.Claim{Mode: backend.Shared}, "third", func() { t.Error("admitted after it was removed") })
	if err != nil {
		t.Fatal(err)
	}
	gone.Remove()
	if err := held.Downgrade(); err != nil || admitted != 1 {
		t.Errorf("Downgrade: %v, and %d were admitted; want 1", err, admitted)
	}
	local := h.Local()
	if _, err := local.Acquire(t.Context(), place, backend.Claim{Mode: backend.Exclusive, NoWait: true}); !errors.Is(err, backend.ErrBusy) {
		t.Errorf("a local claim: %v, want ErrBusy", err)
	}
	held.Remove()
	next.Remove()
	l, err := local.Acquire(t.Context(), place, backend.Claim{Mode: backend.Exclusive})
	if err != nil {
		t.Fatal(err)
	}
	local.End(errors.New("no more"))
	if !errors.Is(l.Err(), backend.ErrLost) {
		t.Errorf("a local claim after End: %v, want ErrLost", l.Err())
	}
	r.refuse = errors.New("full")
	if _, _, err := h.Enter(place, backend.Claim{Mode: backend.Exclusive}, "fourth", nil); !errors.Is(err, r.refuse) {
		t.Errorf("Enter that cannot be recorded: %v", err)
	}
	if roster, err := h.Backend().Observe(t.Context(), place, ""); err != nil || len(roster.Entries) != 0 {
		t.Errorf("in line are %v, %v; want none", roster.Entries, err)
	}
	want := []string{"enter second", "enter third", "leave third", "downgrade first", "leave first", "leave second", "enter fourth"}
	if len(r.log) != len(want) {
		t.Fatalf("recorded %q, want %q", r.log, want)
	}
	for i := range want {
		if r.log[i] != want[i] {
			t.Errorf("recorded %q, want %q", r.log, want)
		}
	}
}
