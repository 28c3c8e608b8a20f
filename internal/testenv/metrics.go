package testenv

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sample is one line of the text that a server's metrics are exposed in.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// The counters of messages from clients and of calls that have ended.
const (
	received = "grpc_server_msg_received_total"
	handled  = "grpc_server_handled_total"
)

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

// metrics asks the node for the samples of these names. It exposes a thousand
// others, which are not parsed.
func (s *servers) metrics(ctx context.Context, n *node, names ...string) ([]sample, error) {
	body, err := s.get(ctx, n, "/metrics")
	if err != nil {
		return nil, err
	}
	var samples []sample
	lines := bufio.NewScanner(bytes.NewReader(body))
	for lines.Scan() {
		line := lines.Text()
		end := strings.IndexAny(line, "{ ")
		if end < 0 || !slices.Contains(names, line[:end]) {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("metrics of %s: cannot read %q", n.name, line)
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of %s: %w", n.name, err)
		}
		labels := map[string]string{}
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			labels[pair[1]] = pair[2]
		}
		samples = append(samples, sample{m[1], labels, value})
	}
	return samples, lines.Err()
}

// Requests returns how many messages clients have sent to the running nodes,
// by method: a unary call is one message, and a stream such as LeaseKeepAlive
// counts every message that the client sent on it. Methods of etcd's own API
// have their bare name ("Range", "Txn", "LeaseGrant", "Watch"), others the name
// of their service before it ("v3lockpb.Lock/Lock"). Methods that were not
// called are absent.
//
// A node counts from its start, so what it counted is gone once it is killed.
// A stream that ends in this moment may be counted with one message more or less
// until it has ended.
func (c *Cluster) Requests(tb Reporter) map[string]int {
	tb.Helper()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	requests := map[string]int{}
	for i, n := range c.s.nodes {
		if n.proc == nil {
			continue
		}
		if n.suspended {
			tb.Fatalf("testenv: Requests: node %d is stopped and cannot be asked: Cont it first", i)
		}
		samples, err := c.s.metrics(c.s.ctx, n, received, handled)
		if err != nil {
			tb.Fatalf("testenv: Requests: %v", err)
		}
		for _, sample := range samples {
			if n := sample.requests(); n != 0 {
				requests[sample.method()] += n
			}
		}
	}
	maps.DeleteFunc(requests, func(_ string, n int) bool { return n == 0 })
	return requests
}

func (s sample) method() string {
	method, service := s.labels["grpc_method"], s.labels["grpc_service"]
	if strings.HasPrefix(service, "etcdserverpb.") {
		return method
	}
	return service + "/" + method
}

// requests is what the sample adds to the messages of its method. etcd counts
// the end of a client's stream as a message received, so each stream that was
// handled to its end takes one away.
func (s sample) requests() int {
	kind := s.labels["grpc_type"]
	stream := kind == "bidi_stream" || kind == "client_stream"
	switch {
	case s.name == received:
		return int(s.value)
	case s.name == handled && stream:
		return -int(s.value)
	default:
		return 0
	}
}

// RequestsDuring returns the requests, as of [Cluster.Requests], that clients
// made while f ran.
func (c *Cluster) RequestsDuring(tb Reporter, f func()) map[string]int {
	tb.Helper()
	before := c.Requests(tb)
	f()
	during := c.Requests(tb)
	for method, n := range before {
		during[method] -= n
		if during[method] == 0 {
			delete(during, method)
		}
	}
	return during
}
