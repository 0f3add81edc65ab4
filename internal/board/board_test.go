package board

import (
	"os"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

func TestMain(m *testing.M) { os.Exit(long.Main(m)) }
