package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gocoord/coord"
	"github.com/gocoord/coord/backend"
)

const (
	envURL     = "COORD_URL"
	originFlag = "the command line"
)

// A target is the service to work with.
type target struct {
	url    string
	origin string // where the URL came from, for people
}

// secret reports whether the URL has a user or a password in it. A URL that
// parses has no other "@".
func (t target) secret() bool { return strings.Contains(t.url, "@") }

// scheme is the part before "://". It is no secret.
func (t target) scheme() string {
	s, _, _ := strings.Cut(t.url, "://")
	return strings.ToLower(s)
}

// target chooses the URL: flags, then the environment, then the default.
func (a *app) target() (target, error) {
	switch {
	case a.url != "" && a.urlFile != "":
		return target{}, usage("--url and --url-file are both given; give one")
	case a.url != "":
		return target{a.url, originFlag}, nil
	case a.urlFile != "":
		url, err := readURL(a.urlFile)
		return target{url, "--url-file"}, err
	}
	if url, ok := getenv(envURL); ok {
		return target{url, envURL}, nil
	}
	url, err := defaultURL()
	return target{url, "the default"}, err
}

// readURL reads the first line of a file.
func readURL(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", usage("--url-file: %w", err)
	}
	defer func() { _ = f.Close() }()
	line, err := bufio.NewReader(io.LimitReader(f, 64<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", usage("--url-file: %w", err)
	}
	line = strings.TrimSpace(line)
	if line == "" {
		return "", usage("--url-file: the first line of %s is empty; write the config URL there", path)
	}
	return line, nil
}

// A service is an open target.
type service struct {
	*coord.Client
	backend backend.Backend // for what the client has no method for
}

// open connects to the target.
func (a *app) open(ctx context.Context, t target) (*service, error) {
	opener, err := backend.Parse(t.url)
	if err != nil {
		return nil, fmt.Errorf("from %s: %w", t.origin, err)
	}
	if ctx.Err() != nil {
		return nil, backend.ContextError(ctx)
	}
	b, err := opener(ctx)
	if err != nil {
		return nil, fmt.Errorf("open %s service from %s: %w", t.scheme(), t.origin, err)
	}
	opts := []coord.Option{coord.WithLogger(a.logger())}
	if a.owner != "" {
		opts = append(opts, coord.WithOwner(a.owner))
	}
	client, err := coord.New(b, opts...)
	if err != nil {
		return nil, err
	}
	return &service{client, b}, nil
}

// connect is open for a ctx that bounds a wait for others. That the connection
// took all of it says nothing about the others.
func (a *app) connect(ctx context.Context, t target) (*service, error) {
	s, err := a.open(ctx, t)
	if errors.Is(err, context.DeadlineExceeded) && status(err) == exitBusy {
		err = &exitError{exitUnavailable, fmt.Errorf("no connection within --timeout: %w", err)}
	}
	return s, err
}

// closed gives the session back and tells what may stay behind.
func (a *app) closed(s *service) {
	if err := s.Close(); err != nil {
		a.complain(err)
	}
}

// completeURL offers the schemes.
func completeURL(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, scheme := range backend.Schemes() {
		d, _ := backend.Lookup(scheme)
		out = append(out, cobra.CompletionWithDesc(scheme+"://", d.Doc))
	}
	return out, cobra.ShellCompDirectiveNoSpace
}

// urlArgument takes the URL of a command that may have it as its argument.
func (a *app) urlArgument(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return usage("%s takes one URL at most, and got %d arguments", cmd.CommandPath(), len(args))
	case len(args) == 1:
		a.url, a.urlFile = args[0], ""
	}
	return nil
}
