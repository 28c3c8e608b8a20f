//go:build !unix

package testenv

import "errors"

var errNoSuspend = errors.New("this system cannot suspend a process: put a Proxy before the node and Mute it instead")

func (p *process) suspend() error { return errNoSuspend }

func (p *process) resume() error { return errNoSuspend }
