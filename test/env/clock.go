package env

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// OwnClock gives the agent a wall clock of its own from its next start, as `make
// clock` builds it. It goes right until MoveClock.
func (a *Agent) OwnClock() {
	a.t.Helper()
	a.binary = Binary(a.t, filepath.Join("clock", "orrery-agent"))
	a.clock = filepath.Join(a.t.TempDir(), "clock")
	a.Setenv("CLOCK_FILE=" + a.clock)
	a.setClock(0)
}

// MoveClock sets the agent's own wall clock to as much ahead of the right time, as
// somebody does who sets the clock of a machine. The agent need not run.
func (a *Agent) MoveClock(ahead time.Duration) {
	a.t.Helper()
	text := a.setClock(ahead)
	if !a.Running() {
		return
	}
	Eventually(a.t, startTimeout, func() error {
		taken, err := os.ReadFile(a.clock + ".taken")
		if err == nil && string(taken) != text {
			err = fmt.Errorf("the agent's clock is %s s ahead, not %s", taken, text)
		}
		return err
	})
}

func (a *Agent) setClock(ahead time.Duration) (text string) {
	a.t.Helper()
	text = strconv.FormatInt(int64(ahead/time.Second), 10)
	err := os.WriteFile(a.clock+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(a.clock+".new", a.clock)
	}
	if err != nil {
		a.t.Fatalf("set the clock of the agent: %v", err)
	}
	return text
}
