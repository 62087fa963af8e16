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

// controller reconciles things that are named by strings: each whenever it may have
// changed, never twice at the same time, and again after a pause if that failed. It is level-triggered:
// reconcile looks at the table, not at what happened.
type controller struct {
	name      string
	logger    *slog.Logger
	watches   []watch
	reconcile func(ctx context.Context, name string) error
	meter     Meter
	// workers is how many names are reconciled at the same time.
	workers int
	// queue is made anew for each run.
	queue workqueue.TypedRateLimitingInterface[string]
}

// watch calls enqueue with the names of what exists and then of what changes, until its
// context ends.
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

// errAgain says that somebody else wrote first, or that something does not exist yet: a
// reason to retry that is not worth a log line.
var errAgain = errors.New("try again")

// againError says that what could be done was done, and after which time to reconcile
// again; 0 means after the others that are queued.
type againError time.Duration

// Error implements error.
func (l againError) Error() string { return "look again in " + time.Duration(l).String() }

const (
	// errMore says that a part is done and the rest can follow.
	errMore = againError(0)
	// errLater says that somebody else has to act first.
	errLater = againError(time.Second)
)

// source is a topic of the table, and which names its changes concern.
type source struct {
	topic table.Topic
	// rows calls fn for the existing rows.
	rows  func(s *table.Snapshot, fn func(*table.Row) bool)
	names func(table.Change) []string
}

// follow is the watch of a source. When it falls out of the window, or the table was
// reloaded meanwhile, perhaps at a lower revision, it starts over, so nothing is missed.
func (c *Controllers) follow(s source) watch {
	return func(ctx context.Context, enqueue func([]string)) error {
		for {
			snapshot := c.config.Table.Snapshot()
			s.rows(snapshot, func(row *table.Row) bool {
				enqueue(s.names(table.Change{Cur: row}))
				return true
			})
			sub, err := c.config.Table.Subscribe(snapshot.Rev, nil, s.topic)
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
