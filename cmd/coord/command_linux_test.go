package main_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// self returns the environment and the command that make coord run this test
// binary as a command of the given mode.
func self(mode string) (env string, argv []string) {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return "COORD_TEST_COMMAND=" + mode, []string{exe}
}

// command is what the tests have coord run.
func command(mode string) int {
	switch mode {
	case "signals":
		return countSignals(false)
	case "signals, then input":
		return countSignals(true)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("pid", os.Getpid())
		select {}
	case "family":
		// A command, and a child that ignores TERM.
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), "COORD_TEST_COMMAND=stubborn")
		out, _ := child.StdoutPipe()
		if err := child.Start(); err != nil {
			return 1
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		fmt.Print("child ", line)
		fmt.Println("parent", os.Getpid())
		select {}
	}
	return 1
}

// countSignals prints each signal that arrives, and "more" for what arrives
// twice, until standard input ends. It may leave that alone until the first one.
func countSignals(late bool) int {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	fmt.Println("ready", os.Getpid())
	eof := make(chan struct{})
	begin := make(chan struct{}, 64)
	if !late {
		begin <- struct{}{}
	}
	go func() {
		<-begin
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() && in.Text() != "end" {
			fmt.Println("read", in.Text())
		}
		close(eof)
	}()
	counts := map[os.Signal]int{}
	for {
		select {
		case s := <-signals:
			counts[s]++
			begin <- struct{}{}
			fmt.Printf("got %d time %d\n", s, counts[s])
		case <-eof:
			// What is on its way still counts.
			time.Sleep(50 * time.Millisecond)
			for {
				select {
				case s := <-signals:
					counts[s]++
					continue
				default:
				}
				break
			}
			total := 0
			for _, n := range counts {
				total += n
			}
			fmt.Println("total", total)
			return 40 + total
		}
	}
}
