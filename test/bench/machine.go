package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine is the state of the machine that a run shares: on a busy one, or one whose disk
// is slow to sync, times mean little.
type machine struct {
	CPUs int `json:"cpus"`
	// Load is the average of the last minute.
	Load float64 `json:"load"`
	// SyncP50 and SyncP90 are how long, in milliseconds, the disk of temporary
	// files takes to make 4 KB durable; hub and agent do so all the time.
	SyncP50 float64 `json:"syncP50"`
	SyncP90 float64 `json:"syncP90"`
}

func (m machine) String() string {
	return fmt.Sprintf("load %.1f on %d CPUs, disk sync p50 %.1f ms, p90 %.1f ms", m.Load, m.CPUs, m.SyncP50, m.SyncP90)
}

func (m machine) busy() bool { return m.Load > float64(m.CPUs)/4 || m.SyncP90 > 20 }

// lookAtMachine takes about a second.
func lookAtMachine() (machine, error) {
	m := machine{CPUs: runtime.NumCPU(), Load: loadAverage()}
	times, err := syncTimes()
	if err != nil {
		return m, fmt.Errorf("time the disk: %w", err)
	}
	m.SyncP50, m.SyncP90 = quantile(times, 0.5), quantile(times, 0.9)
	return m, nil
}

// syncTimes writes and syncs for a second.
func syncTimes() ([]float64, error) {
	f, err := os.CreateTemp("", "bench-sync-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it is a temporary file
	defer f.Close()
	var all []time.Duration
	block := make([]byte, 4<<10)
	for begin := time.Now(); time.Since(begin) < time.Second || len(all) == 0; {
		start := time.Now()
		if _, err := f.WriteAt(block, 0); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		all = append(all, time.Since(start))
	}
	return milliseconds(all), nil
}

// loadAverage is that of the last minute; 0 where the kernel does not say.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}
