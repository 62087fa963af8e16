package controllers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"
)

// Meter receives metrics of controllers, by name. It is called concurrently and must not block.
type Meter interface {
	// Queued reports the length of a controller's queue.
	Queued(controller string, length int)
	// Failed reports that a reconcile has failed and will be retried.
	Failed(controller string)
}

// controller keeps objects as the rows of the table require. A key names one of its objects, or
// several that change together.
type controller interface {
	// watches returns the sources of keys.
	watches() []watch
	// reconcile does the work for a key that a watch has enqueued. It is never called concurrently
	// for the same key. It is level-triggered: it reads the table and does not depend on the event.
	// After an error, it is called again: with backoff, or after the time of an againError.
	reconcile(ctx context.Context, key string) error
}

// watch calls enqueue with the keys of existing objects and then of changes, until its context
// ends.
type watch func(ctx context.Context, enqueue func(keys []string)) error

// registration is a controller with its name and the number of its workers, by default 1.
type registration struct {
	name       string
	workers    int
	controller controller
}

// runner runs a controller: it has the queue from the watches to the workers.
type runner struct {
	registration
	meter  Meter
	logger *slog.Logger
	// queue is created for each run.
	queue workqueue.TypedRateLimitingInterface[string]
}

// run reconciles until the context ends.
func (r *runner) run(ctx context.Context) error {
	r.queue = newQueue()
	group, ctx := errgroup.WithContext(ctx)
	for _, w := range r.controller.watches() {
		group.Go(func() error { return w(ctx, r.enqueue) })
	}
	group.Go(func() error {
		<-ctx.Done()
		r.queue.ShutDown()
		return nil
	})
	for range max(1, r.workers) {
		group.Go(func() error {
			for r.next(ctx) {
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

func (r *runner) enqueue(keys []string) {
	for _, k := range keys {
		r.queue.Add(k)
	}
	r.meter.Queued(r.name, r.queue.Len())
}

func (r *runner) next(ctx context.Context) bool {
	k, stop := r.queue.Get()
	if stop {
		return false
	}
	defer r.queue.Done(k)
	r.meter.Queued(r.name, r.queue.Len())
	err := r.controller.reconcile(ctx, k)
	var again againError
	switch {
	case err == nil:
		r.queue.Forget(k)
	case ctx.Err() != nil:
	case errors.As(err, &again):
		r.queue.Forget(k)
		r.queue.AddAfter(k, time.Duration(again))
	default:
		if !errors.Is(err, errAgain) {
			r.meter.Failed(r.name)
			r.logger.Warn("reconcile", "controller", r.name, "name", k, "error", err)
		}
		r.queue.AddRateLimited(k)
	}
	return true
}

// errAgain is returned when another client wrote first, or when something does not exist yet. It
// causes a retry with backoff, without a log line.
var errAgain = errors.New("try again")

// againError is returned when the reconcile has done what is possible now. It is the time after
// which the key is reconciled again; 0 means after the other keys of its space in the queue.
type againError time.Duration

// Error implements error.
func (l againError) Error() string { return "reconcile again in " + time.Duration(l).String() }

const (
	// errMore is returned when a part is done and the rest can follow.
	errMore = againError(0)
	// errLater is returned when another component must act first.
	errLater = againError(time.Second)
)
