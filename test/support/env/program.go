package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// shownTexts is the maximum number of failures in the error of a program, and shownBytes the maximum
// number of bytes of each.
const (
	shownTexts = 5
	shownBytes = 1000
)

// Main runs f with a T, for programs such as benchmarks. All processes that f started have ended when
// Main returns. The error has the failures that f reported.
func Main(name string, f func(t T)) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	p := &program{name: name, ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer p.clean(cancel)
		f(p)
	}()
	<-done
	return p.err()
}

// program is the T of a program. Fatalf ends the goroutine that Main started, as in a test.
type program struct {
	name string
	ctx  context.Context

	mu       sync.Mutex
	failures int
	shown    []string // the first failures
	cleanups []func()
}

func (p *program) Helper()                  {}
func (p *program) Name() string             { return p.name }
func (p *program) Context() context.Context { return p.ctx }

func (p *program) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (p *program) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.Logf("%s", text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	if len(p.shown) < shownTexts {
		p.shown = append(p.shown, excerpt(text))
	}
}

// excerpt returns the beginning and the end of a long text: a failure begins with a description, and may
// end with the end of a log.
func excerpt(text string) string {
	if len(text) <= shownBytes {
		return text
	}
	return strings.ToValidUTF8(text[:shownBytes/2]+"…"+text[len(text)-shownBytes/2:], "")
}

func (p *program) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}

func (p *program) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures > 0
}

// err returns the reported failures, or nil if there are none.
func (p *program) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures == 0 {
		return nil
	}
	text := fmt.Sprintf("%s failed: %s", p.name, strings.Join(p.shown, "\n"))
	if more := p.failures - len(p.shown); more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return errors.New(text)
}

func (p *program) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

func (p *program) TempDir() string {
	dir, err := os.MkdirTemp("", p.name+"-")
	if err != nil {
		p.Fatalf("make a directory: %v", err)
	}
	p.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			p.Logf("remove %q: %v", dir, err)
		}
	})
	return dir
}

func (p *program) clean(cancel context.CancelFunc) {
	cancel()
	p.mu.Lock()
	cleanups := p.cleanups
	p.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
}
