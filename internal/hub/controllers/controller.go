package controllers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"orrery.dev/orrery/internal/hub/storage/table"
)

const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 30 * time.Second
)

// controller reconciles keys of a queue: each whenever its object may have changed, never
// concurrently with itself, and again with backoff after an error. It is level-triggered: reconcile
// reads the table and does not depend on the event.
type controller struct {
	name      string
	logger    *slog.Logger
	watches   []watch
	reconcile func(ctx context.Context, name string) error
	meter     Meter
	// workers is the number of concurrent reconciles.
	workers int
	// queue is created for each run.
	queue workqueue.TypedRateLimitingInterface[string]
}

// watch calls enqueue with the keys of existing objects and then of changes, until its context
// ends.
type watch func(ctx context.Context, enqueue func(names []string)) error

func (c *Controllers) controller(name string, reconcile func(context.Context, string) error, watches ...watch) *controller {
	return &controller{name: name, logger: c.config.Logger, watches: watches, reconcile: reconcile, meter: c.config.Meter, workers: 1}
}

// run reconciles until the context ends.
func (c *controller) run(ctx context.Context) error {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost)
	c.queue = workqueue.NewTypedRateLimitingQueue(limiter)
	group, ctx := errgroup.WithContext(ctx)
	for _, w := range c.watches {
		group.Go(func() error { return w(ctx, c.enqueue) })
	}
	group.Go(func() error {
		<-ctx.Done()
		c.queue.ShutDown()
		return nil
	})
	for range c.workers {
		group.Go(func() error {
			for c.next(ctx) {
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

func (c *controller) enqueue(names []string) {
	for _, name := range names {
		c.queue.Add(name)
	}
	c.meter.Queued(c.name, c.queue.Len())
}

func (c *controller) next(ctx context.Context) bool {
	name, stop := c.queue.Get()
	if stop {
		return false
	}
	defer c.queue.Done(name)
	c.meter.Queued(c.name, c.queue.Len())
	err := c.reconcile(ctx, name)
	var again againError
	switch {
	case err == nil:
		c.queue.Forget(name)
	case ctx.Err() != nil:
	case errors.As(err, &again):
		c.queue.Forget(name)
		c.queue.AddAfter(name, time.Duration(again))
	default:
		if !errors.Is(err, errAgain) {
			c.meter.Failed(c.name)
			c.logger.Warn("reconcile", "controller", c.name, "name", name, "error", err)
		}
		c.queue.AddRateLimited(name)
	}
	return true
}

// errAgain is returned when another client wrote first, or when something does not exist yet. It
// causes a retry without a log line.
var errAgain = errors.New("try again")

// againError is returned when the reconcile has done what is possible now. It is the time after
// which the key is reconciled again; 0 means after the other keys in the queue.
type againError time.Duration

// Error implements error.
func (l againError) Error() string { return "reconcile again in " + time.Duration(l).String() }

const (
	// errMore is returned when a part is done and the rest can follow.
	errMore = againError(0)
	// errLater is returned when another component must act first.
	errLater = againError(time.Second)
)

// source selects the rows of the table that a controller depends on.
type source struct {
	topics []table.Topic
	// rows calls fn for rows from which names returns the keys of all objects that may need a
	// reconcile. The watch calls it at the start, and again whenever it may have missed changes of
	// any topic, so it must not depend on rows that a missed change may have deleted.
	rows func(s *table.Snapshot, fn func(*table.Row) bool)
	// names returns the keys to enqueue for a change. Prev is nil for an existing row.
	names func(table.Change) []string
}

// follow returns the watch of a source. If the subscription falls out of a window, or the table is
// reloaded, perhaps at a lower revision, it lists the rows again. So no change is missed.
func (c *Controllers) follow(s source) watch {
	return func(ctx context.Context, enqueue func([]string)) error {
		for {
			snapshot := c.config.Table.Snapshot()
			s.rows(snapshot, func(row *table.Row) bool {
				enqueue(s.names(table.Change{Cur: row}))
				return true
			})
			sub, err := c.config.Table.Subscribe(snapshot.Rev, nil, s.topics...)
			if err == nil {
				err = s.poll(ctx, sub, enqueue)
				sub.Close()
			}
			if !errors.Is(err, table.ErrExpired) && !errors.Is(err, table.ErrFuture) {
				return err
			}
		}
	}
}

func (s source) poll(ctx context.Context, sub *table.Subscription, enqueue func([]string)) error {
	for {
		select {
		case <-sub.Wake():
		case <-ctx.Done():
			return ctx.Err()
		}
		steps, _, err := sub.Poll()
		if err != nil {
			return err
		}
		for _, step := range steps {
			for _, ch := range step.Changes {
				enqueue(s.names(ch))
			}
		}
	}
}
