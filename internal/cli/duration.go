package cli

import (
	"errors"
	"strconv"
	"time"
)

// seconds is a flag for a time: a number of seconds, or a number with its unit.
type seconds time.Duration

// String is empty for none, so that the help shows no default.
func (s *seconds) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

func (s *seconds) Type() string { return "time" }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, nerr := strconv.ParseFloat(text, 64); nerr == nil {
		d, err = time.Duration(n*float64(time.Second)), nil
		if n > 1e9 {
			err = errors.New("too long")
		}
	}
	if err != nil || d <= 0 {
		return errors.New(`want a time above zero, as in "10" (seconds), "1.5s" or "2m"`)
	}
	*s = seconds(d)
	return nil
}

// exitCode is a flag for an exit status, which may have to be a failure.
type exitCode struct {
	code    int
	failure bool // 0 is refused
}

func (c *exitCode) String() string { return strconv.Itoa(c.code) }

func (c *exitCode) Type() string { return "status" }

func (c *exitCode) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0 || n > 255:
		return errors.New("want a number from 0 to 255")
	case n == 0 && c.failure:
		return errors.New("want a number from 1 to 255: it must not look like a success")
	}
	c.code = n
	return nil
}
