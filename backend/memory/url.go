package memory

import (
	"context"
	"fmt"

	"github.com/gocoord/coord/backend"
)

func init() {
	backend.Register("memory", backend.Driver{
		Form:    "memory://[name]",
		Example: "memory://jobs",
		Doc:     "Inside this process. Clients of one name share a space; without a name each Open has a space of its own.",
		Parse:   parse,
	})
}

func parse(u *backend.URL) (backend.Opener, error) {
	if u.User != nil || len(u.Hosts) > 1 || u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("%w: want memory:// or memory://name, with nothing else", backend.ErrInvalid)
	}
	return func(context.Context) (backend.Backend, error) {
		if len(u.Hosts) == 0 {
			return New(), nil
		}
		return Open(u.Hosts[0]), nil
	}, nil
}
