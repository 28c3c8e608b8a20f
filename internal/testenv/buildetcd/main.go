// Command buildetcd builds the etcd server and etcdctl that the tests run,
// unless this machine has them already, and prints their paths. Run it before
// the tests where a test's time-out would not leave time for the build:
//
//	go run ./internal/testenv/buildetcd
package main

import (
	"fmt"
	"os"

	"github.com/gocoord/coord/internal/testenv"
)

func main() {
	bins, err := testenv.Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(bins.Etcd)
	fmt.Println(bins.Etcdctl)
}
