package main_test

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// interactive is a shell with job control in a terminal.
func interactive(t *testing.T, url string) *program {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("job control is tested with bash, and there is none")
	}
	s := setup{url: url, tty: true, env: []string{"PS1=prompt> ", "COORD_PROGRAM=" + coordBinary, "TERM=dumb", "HISTFILE="}}
	p := s.startCommand(t, exec.Command(bash, "--norc", "--noprofile", "--noediting", "-i"))
	p.prints("prompt> ", 1)
	return p
}

func (p *program) types(s string) {
	p.t.Helper()
	if _, err := p.tty.WriteString(s); err != nil {
		p.t.Fatal(err)
	}
}

// TestJobControl stops and continues a job with a lock, as one does at a
// terminal.
func TestJobControl(t *testing.T) {
	t.Parallel()
	p := interactive(t, serviceURL(t))
	p.types("$COORD_PROGRAM lock x -- sh -c 'echo re\"\"ady; read a; echo fir\"\"st $a; read b; echo sec\"\"ond $b'; echo sta\"\"tus $?\n")
	p.prints("ready\n", 1)
	p.types("one\n")
	p.prints("first one\n", 1)
	p.types("\x1a") // Ctrl-Z
	p.prints("Stopped", 1)
	p.types("echo at the pro\"\"mpt\n")
	p.prints("at the prompt\n", 1)
	p.types("fg\n")
	p.prints("fg\n", 1)
	p.types("two\n")
	p.prints("second two\n", 1)
	// And once more from the background, where it stops when it reads.
	p.types("$COORD_PROGRAM lock y -- sh -c 'echo go\"\"ing; read a; echo thi\"\"rd $a' &\n")
	p.prints("going\n", 1)
	p.types("\n")
	for n := 1; !strings.Contains(p.stdout(), "Stopped                 $COORD_PROGRAM lock y") && n < 1000; n++ {
		p.types("jobs\n")
		p.prints("jobs\n", n)
	}
	p.types("fg\n")
	p.prints("fg\n", 2)
	p.types("three\n")
	p.prints("third three\n", 1)
	p.types("exit 12\n")
	p.mustEnd(12)
}

// TestPipeline has the reader at the terminal and coord only write.
func TestPipeline(t *testing.T) {
	t.Parallel()
	p := interactive(t, serviceURL(t))
	p.types("$COORD_PROGRAM lock x -- echo from the com\"\"mand | { read line; read key </dev/tty; echo $line and $key; }\n")
	p.types("key\n")
	p.prints("from the command and key\n", 1)
	p.types("exit 3\n")
	p.mustEnd(3)
}

// TestHangUp closes the terminal.
func TestHangUp(t *testing.T) {
	t.Parallel()
	url := serviceURL(t)
	s := setup{url: url, tty: true}
	p := s.start(t, "lock", "x", "--", "sh", "-c", "echo ready; exec sleep 60")
	p.prints("ready", 1)
	_ = p.tty.Close()
	p.mustEnd(128 + int(syscall.SIGHUP))
	mustBeFree(t, client(t, url), "x")
}

// TestInteractiveCommand runs a shell with its own job control under a lock, at
// a prompt and in a script.
func TestInteractiveCommand(t *testing.T) {
	t.Parallel()
	const inner = "$COORD_PROGRAM lock x -- env 'PS1=inner> ' bash --norc --noprofile --noediting -i"
	for name, line := range map[string]string{
		"prompt": inner + "; echo sta\"\"tus $?\n",
		"script": "sh -c '" + strings.ReplaceAll(inner, "'", "\"") + "; echo sta\"\"tus $?'\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := interactive(t, serviceURL(t))
			p.types(line)
			p.prints("\ninner> ", 1)
			p.types("sh -c 'echo sle\"\"eping; exec sleep 60'\n")
			p.prints("sleeping\n", 1)
			p.types("\x03")
			p.prints("\ninner> ", 2)
			p.types("cat\n")
			p.types("to the cat\n")
			p.prints("to the cat\n", 2)
			p.types("\x1a")
			p.prints("Stopped", 1)
			p.types("exit 6\n")
			p.prints("There are stopped jobs", 1)
			p.types("exit 6\n")
			if got := p.field("status "); got != "6" {
				t.Errorf("status %s, want 6:\n%s", got, p.stdout())
			}
			p.types("exit 3\n")
			p.mustEnd(3)
		})
	}
}
