package env

import (
	"strings"
	"time"
)

// GivesUp runs a client that must give up at its timeout, until its output has all texts, which show that the
// client waited. Run returns the output. The first timeout is first. On a busy machine a client can give up
// before it has begun to wait, so each further timeout is twice as long.
func GivesUp(t T, first time.Duration, run func(timeout time.Duration) (output string), texts ...string) {
	t.Helper()
	for timeout := first; ; timeout *= 2 {
		output, missing := run(timeout), ""
		for _, text := range texts {
			if !strings.Contains(output, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		if timeout > Soon {
			t.Fatalf("with a timeout of %s, the client did not print %q, but\n%s", timeout, missing, output)
		}
		t.Logf("with a timeout of %s, the client did not print %q, but\n%s", timeout, missing, output)
	}
}
