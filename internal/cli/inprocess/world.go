// Package inprocess runs hubs and agents in this process: it starts them, waits until they are
// ready, and stops them in order.
//
// The demo and the tests of hub and agent use it. It must start them only as the commands do, by
// hub.Run and agent.New. Tests of signals, flags, output and kill -9 need processes, which
// test/support/env has.
package inprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/cli/admin"
	"orrery.dev/orrery/internal/hub"
)

// World is a set of running parts. Only one goroutine may use it.
type World struct {
	// Ended, if not nil, is called when a part ends before it is stopped. The part's goroutine
	// calls it.
	Ended func(error)
	all   []*Process
}

// Process is a function that runs until it is stopped.
type Process struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // after done
}

// errNotStopped is the error of a part that returned nil before it was stopped.
var errNotStopped = errors.New("it was not stopped")

// Start runs a function until the part is stopped. The end of ctx does not stop it, so that parts
// can be stopped in order.
func (w *World) Start(ctx context.Context, name string, run func(context.Context) error) *Process {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &Process{cancel: cancel, done: make(chan struct{})}
	w.all = append(w.all, p)
	go func() {
		defer close(p.done)
		p.err = run(ctx)
		if ctx.Err() == nil && w.Ended != nil {
			w.Ended(fmt.Errorf("%s ended: %w", name, cmp.Or(p.err, errNotStopped)))
		}
	}()
	return p
}

// Stop stops a part, waits for it and returns its error. It can be called several times.
func (p *Process) Stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// Stop stops all parts in the reverse order of their start.
func (w *World) Stop() (err error) {
	for _, p := range slices.Backward(w.all) {
		err = errors.Join(err, p.Stop())
	}
	return err
}

// Hub is a running hub, with the access of its operator.
type Hub struct {
	*Process
	admin.Hub
}

// StartHub starts a hub and waits until it serves.
func (w *World) StartHub(ctx context.Context, name string, config hub.Config) (*Hub, error) {
	served := make(chan hub.Ready, 1)
	p := w.Start(ctx, "hub "+name, func(ctx context.Context) error {
		return hub.Run(ctx, config, func(r hub.Ready) { served <- r })
	})
	ready, err := await(ctx, p, served)
	if err != nil {
		return nil, fmt.Errorf("start hub %q: %w", name, err)
	}
	operator, err := admin.Open(ready.URL, ready.Kubeconfig)
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return &Hub{p, operator}, nil
}

// StartAgent starts an agent and waits until it enforces its stored objects.
func (w *World) StartAgent(ctx context.Context, config agent.Config) (*Process, error) {
	a, err := agent.New(config)
	if err != nil {
		return nil, err
	}
	p := w.Start(ctx, "agent "+config.Join.Location, func(ctx context.Context) error {
		return agent.RunAnew(ctx, a, func(*agent.Agent) {})
	})
	if _, err := await(ctx, p, a.Ready()); err != nil {
		return nil, fmt.Errorf("start the agent of %q: %w", config.Join.Location, err)
	}
	return p, nil
}

// await waits until a part is ready. If ctx ends first, it stops the part.
func await[T any](ctx context.Context, p *Process, ready <-chan T) (is T, err error) {
	select {
	case is = <-ready:
		return is, nil
	case <-p.done:
		return is, cmp.Or(p.err, errNotStopped)
	case <-ctx.Done():
		return is, errors.Join(context.Cause(ctx), p.Stop())
	}
}
