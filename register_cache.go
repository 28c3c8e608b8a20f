package coord

import (
	"sync"

	"github.com/gocoord/coord/backend"
)

// A registerCache keeps the last registers that a client has seen. When a round
// closes, all its members in this client read the same one: it is decoded once.
// And who arrives at a barrier begins with the one that was last seen there.
type registerCache struct {
	mu   sync.Mutex
	seen [4]cachedRegister
	next int
}

type cachedRegister struct {
	place backend.Place
	reg   *register
}

// get returns the decoded form of v, which it keeps as the last one.
func (c *registerCache) get(p backend.Place, v backend.Value) (*register, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reg := c.lastLocked(p); reg != nil && reg.version == v.Version {
		return reg, nil
	}
	reg, err := parseRegister(v)
	if err != nil {
		return nil, err
	}
	c.keepLocked(p, reg)
	return reg, nil
}

// keep notes the register that is now the last one of its place.
func (c *registerCache) keep(p backend.Place, reg *register) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepLocked(p, reg)
}

func (c *registerCache) keepLocked(p backend.Place, reg *register) {
	for i := range c.seen {
		if c.seen[i].place == p {
			c.seen[i].reg = reg
			return
		}
	}
	c.seen[c.next] = cachedRegister{p, reg}
	c.next = (c.next + 1) % len(c.seen)
}

// last returns the register that was last seen of a place, or nil.
func (c *registerCache) last(p backend.Place) *register {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastLocked(p)
}

func (c *registerCache) lastLocked(p backend.Place) *register {
	for _, s := range c.seen {
		if s.place == p {
			return s.reg
		}
	}
	return nil
}
