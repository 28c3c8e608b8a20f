package backend

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func init() {
	Register("test", Driver{
		Form:    "test://host/path",
		Example: "test://localhost/x",
		Parse: func(u *URL) (Opener, error) {
			u.Query.Duration("ttl", 10*time.Second, time.Second, time.Minute, "how long")
			u.Query.Int("size", 1, 1, 9, "how big")
			u.Query.Bool("fast", false, "how fast")
			u.Query.OneOf("layout", []string{"one", "two"}, "which")
			u.Query.String("tag", "", "what")
			return func(context.Context) (Backend, error) { return nil, errors.New("not there") }, nil
		},
	})
}

func TestSplit(t *testing.T) {
	tests := []struct {
		in   string
		want URL
	}{
		{"test://", URL{}},
		{"TEST://h", URL{Hosts: []string{"h"}}},
		{"test://h:1,h2:2,[::1]:3,[fe80::1]/a/b", URL{Hosts: []string{"h:1", "h2:2", "[::1]:3", "[fe80::1]"}, Path: "/a/b"}},
		{"test:///run/app.sock", URL{Path: "/run/app.sock"}},
		{"test://u@h", URL{User: &User{Name: "u"}, Hosts: []string{"h"}}},
		{"test://u:p%23%25%40%2F%3A@h", URL{User: &User{"u", "p#%@/:"}, Hosts: []string{"h"}}},
		{"test://u:a:b@h", URL{User: &User{"u", "a:b"}, Hosts: []string{"h"}}},
		{"test://h/a%20b+c", URL{Hosts: []string{"h"}, Path: "/a b+c"}},
		{"test://name_with_underscore", URL{Hosts: []string{"name_with_underscore"}}},
	}
	for _, test := range tests {
		u, err := split(test.in)
		if err != nil {
			t.Errorf("%s: %v", test.in, err)
			continue
		}
		u.Scheme, u.Query = "", nil
		if !reflect.DeepEqual(*u, test.want) {
			t.Errorf("%s: %#v, want %#v", test.in, u.Hosts, test.want)
		}
	}
}

func TestParseRejects(t *testing.T) {
	tests := map[string]string{ // URL: a word of what the error must say
		"":                            "scheme://",
		"h:2379":                      "scheme://",
		"nosuch://h":                  "linked in: ",
		"tets://h":                    `did you mean "test"?`,
		"test://h:x":                  "port",
		"test://h:0":                  "port",
		"test://h:70000":              "port",
		"test://h,":                   "number 2",
		"test://::1":                  "IPv6",
		"test://[h]:1":                "IPv6",
		"test://:1":                   "no name",
		"test://h h":                  "space",
		"test://h\n":                  "control",
		"test://h#x":                  "%23",
		"test://h/%zz":                "%25",
		"test://h?ttl":                "name=value",
		"test://h?tll=1s":             "did you mean ttl?",
		"test://h?zzzzzzzzz=1":        "it takes ttl, size",
		"test://h?ttl=1s&ttl=2s":      "given twice",
		"test://h?ttl=1":              "10s",
		"test://h?ttl=2h":             "1s to 1m0s",
		"test://h?size=10":            "from 1 to 9",
		"test://h?fast=maybe":         "true or false",
		"test://h?layout=three":       "one or two",
		"test://u:a@b@h":              "%40",
		"test://h/p@q":                "%40",
		"test://h?ttl=x&sise=3&tag=%": "%25",
	}
	for in, word := range tests {
		_, err := Parse(in)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: error %v, want ErrInvalid with %q", in, err, word)
		}
	}
}

func TestParseReportsAllTogether(t *testing.T) {
	_, err := Parse("test://h?ttl=never&sise=3&size=0&nosuch=1")
	for _, word := range []string{"ttl", "sise", "size", "nosuch"} {
		if err == nil || !strings.Contains(err.Error(), "parameter "+word) {
			t.Errorf("error %v does not tell of %s", err, word)
		}
	}
}

// TestParseKeepsSecrets puts a password where people put it by mistake. See
// golang/go#53993 for what url.Parse does.
func TestParseKeepsSecrets(t *testing.T) {
	for _, in := range []string{
		"test://u:S3cr3t@h:x", "test://u:S3cr3t@h/%zz", "test://u:S3c#r3t@h", "test://u:S3cr/3t@h", "test://u:S3cr3t@h\n",
		"nosuch://u:S3cr3t@h", "test://u:S3cr3t@h h", "test://h?password=S3cr3t", "test://h?token=S3cr3t", "test://u:S3c@r3t@h",
		"test://u:S3cr3t%@h", "test://u:S3cr?3t@h", "u:S3cr3t@h:1", "test://u:1234/S3cr3t@h", "test://u:1234?S3cr3t@h",
		"test://h?ttl=S3cr3t", "test://h?S3cr3t@h=1", "test://S3cr3t%40h:1:2", "test://u:S3cr3t", "test://u:S3cr3t@h?ttl=%S3cr3t",
	} {
		_, err := Parse(in)
		if err == nil {
			t.Errorf("%q parses", in)
			continue
		}
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		for i := 0; i+4 <= len("S3cr3t"); i++ {
			if piece := "S3cr3t"[i : i+4]; strings.Contains(text, piece) {
				t.Errorf("%q: the error quotes %q: %s", in, piece, text)
			}
		}
	}
	u, err := split("test://u:S3cr3t@h")
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", u.User, *u, *u.User, u.User); strings.Contains(text, "S3cr") {
		t.Errorf("a URL prints its password: %s", text)
	}
}

func TestParams(t *testing.T) {
	params, err := Params("test")
	if err != nil || len(params) != 5 || params[0].Name != "ttl" || params[0].Default != "10s" {
		t.Errorf("Params = %v, %v", params, err)
	}
	if _, err := Params("nosuch"); !errors.Is(err, ErrInvalid) {
		t.Errorf("of an unknown scheme: %v", err)
	}
}

func TestRegisterPanics(t *testing.T) {
	parse := func(*URL) (Opener, error) { return nil, nil }
	for scheme, d := range map[string]Driver{"test": {Parse: parse}, "": {Parse: parse}, "A": {Parse: parse}, "x+y": {Parse: parse}, "noparse": {}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Register(%q) did not panic", scheme)
				}
			}()
			Register(scheme, d)
		}()
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"test://u:p@h:1,[::1]:2/a?ttl=1s", "test://", "x", "test://%", "test://h?a=b&c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		open, err := Parse(s)
		if (open == nil) == (err == nil) {
			t.Errorf("%q: opener %t, error %v", s, open != nil, err)
		}
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v is not ErrInvalid", s, err)
		}
	})
}
