package env

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
)

// Main runs f with what a test has, for programs such as benchmarks. Everything
// that f started has ended when Main returns. The error says that f failed or
// was interrupted.
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
	if p.Failed() {
		return fmt.Errorf("%s failed", name)
	}
	return nil
}

// program is the T of a program. Fatalf ends the goroutine that Main started, as
// it does in a test.
type program struct {
	name string
	ctx  context.Context

	mu       sync.Mutex
	failed   bool
	cleanups []func()
}

func (p *program) Helper()                  {}
func (p *program) Name() string             { return p.name }
func (p *program) Context() context.Context { return p.ctx }

func (p *program) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (p *program) Errorf(format string, args ...any) {
	p.Logf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = true
}

func (p *program) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}

func (p *program) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
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
