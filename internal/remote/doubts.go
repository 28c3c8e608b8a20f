package remote

import (
	"bytes"
	"slices"
	"sync"

	"github.com/gocoord/coord/backend"
)

// Doubts are the Stores of a client that ended without an answer. When the same
// Store is asked for again it takes over the tag, and so finds its own earlier
// effect. A doubt is taken over once: another caller who wants the same thing
// wants it again.
type Doubts struct {
	mu  sync.Mutex
	all []doubt
}

type doubt struct {
	register string
	tag      string
	data     []byte
	prev     backend.Version
}

const maxDoubts = 64

// Remember notes a Store, and keeps data.
func (d *Doubts) Remember(register, tag string, data []byte, prev backend.Version) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, doubt{register, tag, data, prev})
	if len(d.all) > maxDoubts {
		d.all = d.all[1:]
	}
}

// Take finds the tag of such a Store, and forgets it.
func (d *Doubts) Take(register string, data []byte, prev backend.Version) (tag string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, e := range d.all {
		if e.register == register && e.prev == prev && (e.data == nil) == (data == nil) && bytes.Equal(e.data, data) {
			d.all = slices.Delete(d.all, i, i+1)
			return e.tag, true
		}
	}
	return "", false
}
