package env

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
)

// Goroutines ends a Go process by SIGQUIT, and returns a summary of its goroutines: their number by
// state, current function and creator.
func (p *Process) Goroutines() string {
	p.t.Helper()
	before := len(p.Stderr())
	p.Signal(syscall.SIGQUIT)
	if _, ended := p.Wait(Soon); !ended {
		return p.name + " does not end"
	}
	return summary(p.Stderr()[before:])
}

// summary counts the stacks in the output of the runtime.
func summary(stacks string) string {
	counts := map[string]int{}
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		head, frames, ok := strings.Cut(strings.TrimSpace(stack), "\n")
		if !ok || !strings.HasPrefix(head, "goroutine ") {
			continue
		}
		var calls []string
		for frame := range strings.SplitSeq(frames, "\n") {
			call, _, _ := strings.Cut(frame, " in goroutine ")
			if !strings.HasPrefix(frame, "\t") && !strings.HasPrefix(call, "runtime.") {
				calls = append(calls, withoutArguments(call))
			}
		}
		if len(calls) == 0 || strings.HasPrefix(calls[0], "created by runtime.") {
			continue // a goroutine of the runtime, which runtime.NumGoroutine does not count either
		}
		_, state, _ := strings.Cut(head, "[")
		state, _, _ = strings.Cut(strings.TrimSuffix(state, "]:"), ",")
		counts[fmt.Sprintf("%s in %s, %s", state, calls[0], calls[len(calls)-1])]++
	}
	var lines []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%4d %s", counts[kind], kind))
	}
	return strings.Join(lines, "\n")
}

// withoutArguments removes the arguments of a call in a stack.
func withoutArguments(call string) string {
	if i := strings.LastIndex(call, "("); i > 0 && !strings.HasPrefix(call, "created by") {
		return call[:i]
	}
	return call
}
