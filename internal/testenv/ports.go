package testenv

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range from which systems take the local ends
// of outgoing connections. A server that was stopped can therefore come back on
// its port later, with no connection of another process sitting on it.
const (
	firstPort = 20000
	lastPort  = 31999
)

// freePorts returns n different loopback ports that were free just now. Another
// process may take one before it is used, so callers try again on that error.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", loopback(port))
		if err != nil {
			continue
		}
		listeners = append(listeners, l)
		ports = append(ports, port)
	}
	return nil, errors.New("testenv: found no free loopback port: end other servers on this machine")
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
