package env

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// OwnClock gives the process a wall clock of its own from its next start, with the binary that `make
// clock` builds. Until MoveClock it shows the real time.
func (p *Process) OwnClock() {
	p.t.Helper()
	p.binary, p.isAltered = Binary(p.t, filepath.Join("clock", filepath.Base(p.binary))), true
	p.clock = filepath.Join(p.t.TempDir(), "clock")
	p.Setenv("CLOCK_FILE=" + p.clock)
	p.setClock(0)
}

// MoveClock sets the process's own wall clock ahead of the real time, as if the clock of its machine was
// set. The process need not run.
func (p *Process) MoveClock(ahead time.Duration) {
	p.t.Helper()
	text := p.setClock(ahead)
	if !p.Running() {
		return
	}
	Eventually(p.t, startTimeout, func() error {
		taken, err := os.ReadFile(p.clock + ".taken")
		if err == nil && string(taken) != text {
			err = fmt.Errorf("the clock of %s is %s s ahead, not %s", p.name, taken, text)
		}
		return err
	})
}

func (p *Process) setClock(ahead time.Duration) (text string) {
	p.t.Helper()
	text = strconv.FormatInt(int64(ahead/time.Second), 10)
	err := os.WriteFile(p.clock+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(p.clock+".new", p.clock)
	}
	if err != nil {
		p.t.Fatalf("set the clock of %s: %v", p.name, err)
	}
	return text
}
