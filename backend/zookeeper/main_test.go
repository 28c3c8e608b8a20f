package zookeeper_test

import (
	"os"
	"testing"

	"github.com/gocoord/coord/internal/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m))
}
