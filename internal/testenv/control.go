package testenv

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// node returns node i for a method that changes its state; the caller holds
// s.mu.
func (c *Cluster) node(method string, i int) *node {
	c.tb.Helper()
	if c.s.shared {
		c.tb.Fatalf("testenv: %s(%d): other tests use this shared cluster too: start one with Etcd", method, i)
	}
	if i < 0 || i >= len(c.s.nodes) {
		c.tb.Fatalf("testenv: %s(%d): the cluster has %d nodes, counted from 0", method, i, len(c.s.nodes))
	}
	return c.s.nodes[i]
}

// running is node, but fails the test if the node's process has ended.
func (c *Cluster) running(method string, i int) *node {
	c.tb.Helper()
	n := c.node(method, i)
	if err := n.running(); err != nil {
		c.tb.Fatalf("testenv: %s(%d): %v", method, i, err)
	}
	return n
}

// Stop suspends node i (SIGSTOP): its connections stay open and it answers
// nothing, as on a machine that hangs. Cont lets it go on.
func (c *Cluster) Stop(i int) {
	c.tb.Helper()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err := c.node("Stop", i).suspend(); err != nil {
		c.tb.Fatalf("testenv: Stop(%d): %v", i, err)
	}
}

// Cont lets node i go on after Stop. It does not wait for the node to be
// healthy.
func (c *Cluster) Cont(i int) {
	c.tb.Helper()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err := c.node("Cont", i).resume(); err != nil {
		c.tb.Fatalf("testenv: Cont(%d): %v", i, err)
	}
}

// Kill ends node i at once (SIGKILL) and waits until its process is gone. Its
// data stay for Restart. It does nothing if the node was killed already.
func (c *Cluster) Kill(i int) {
	c.tb.Helper()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err := c.node("Kill", i).kill(); err != nil {
		c.tb.Fatalf("testenv: Kill(%d): %v", i, err)
	}
}

// Restart starts node i again with its data on its ports, killing it first if
// it runs. It waits until the node is healthy if enough nodes run for that, and
// returns at once otherwise.
func (c *Cluster) Restart(i int) {
	c.tb.Helper()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	n := c.node("Restart", i)
	deadline := time.Now().Add(startTimeout)
	for {
		err := n.kill()
		if err == nil {
			err = c.s.startNode(n)
		}
		if err == nil && c.s.hasMajority() {
			err = c.s.awaitHealth(n)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, errPortTaken) || time.Now().After(deadline) {
			c.tb.Fatalf("testenv: Restart(%d): %v", i, err)
		}
	}
}

func (s *servers) hasMajority() bool {
	running := 0
	for _, n := range s.nodes {
		if n.proc != nil && !n.suspended {
			running++
		}
	}
	return running > len(s.nodes)/2
}

// Leader waits until the running nodes agree on who leads them and returns that
// node's number.
func (c *Cluster) Leader() int {
	c.tb.Helper()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.s.ctx, startTimeout)
	defer cancel()
	for {
		leader, err := c.s.findLeader(ctx)
		if err == nil {
			return leader
		}
		select {
		case <-ctx.Done():
			c.tb.Fatalf("testenv: no leader within %v: %v", startTimeout, err)
		case <-time.After(pollEvery):
		}
	}
}

const (
	isLeader  = "etcd_server_is_leader"
	hasLeader = "etcd_server_has_leader"
)

// findLeader looks for the one running node that says it leads while the others
// say that they have a leader. For a moment an old leader that was suspended
// may claim to lead beside the new one, which is why one claim is not enough.
func (s *servers) findLeader(ctx context.Context) (int, error) {
	leader := -1
	for i, n := range s.nodes {
		if n.proc == nil || n.suspended {
			continue
		}
		samples, err := s.metrics(ctx, n, isLeader, hasLeader)
		if err != nil {
			return -1, err
		}
		var leads, has float64
		for _, sample := range samples {
			switch sample.name {
			case isLeader:
				leads = sample.value
			case hasLeader:
				has = sample.value
			}
		}
		if has == 0 {
			return -1, fmt.Errorf("%s has no leader", n.name)
		}
		if leads == 0 {
			continue
		}
		if leader >= 0 {
			return -1, fmt.Errorf("both %s and %s claim to lead", s.nodes[leader].name, n.name)
		}
		leader = i
	}
	if leader < 0 {
		return -1, errors.New("no running node leads")
	}
	return leader, nil
}
