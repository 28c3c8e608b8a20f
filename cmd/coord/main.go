// Coord runs commands under locks, semaphores, elections and barriers, on any
// service that a config URL of package coord can name. See docs/cli.md, or
//
//	coord help lock
package main

import (
	"os"

	_ "github.com/gocoord/coord/backend/all"
	"github.com/gocoord/coord/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
}
