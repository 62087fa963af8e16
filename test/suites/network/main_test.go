package network

import (
	"os"
	"testing"

	"orrery.dev/orrery/test/support/env"
)

// TestMain starts few clusters: a test may get that of an earlier one.
func TestMain(m *testing.M) { os.Exit(env.ReuseClusters(m)) }
