package env

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a running process has taken.
type Usage struct {
	// RSSAnon is memory that is the process's own, RSS counts mapped files too.
	// Both in bytes.
	RSSAnon, RSS int64
	// CPU is user and system time since the process started.
	CPU time.Duration
}

// tick is the unit of CPU time in /proc on Linux, which is the same everywhere.
const tick = 10 * time.Millisecond

// Usage returns what the process has taken since it was last started.
func (p *Process) Usage() Usage {
	p.t.Helper()
	if !p.Running() {
		p.t.Fatalf("measure %s: it is not running", p.name)
	}
	u, err := usage(p.cmd.Process.Pid)
	if err != nil {
		p.t.Fatalf("measure %s: %v", p.name, err)
	}
	return u
}

func usage(pid int) (Usage, error) {
	var u Usage
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "RssAnon":
			u.RSSAnon, err = kilobytes(value)
		case "VmRSS":
			u.RSS, err = kilobytes(value)
		}
		if err != nil {
			return u, fmt.Errorf("parse %s: %w", name, err)
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	// The command's name is in parentheses and may contain anything; utime and
	// stime are the 12th and 13th fields after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("parse CPU time: %w", err)
		}
		u.CPU += time.Duration(ticks) * tick
	}
	return u, nil
}

func kilobytes(value string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
	return n * 1024, err
}
