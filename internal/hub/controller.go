package hub

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"orrery.dev/orrery/internal/table"
)

const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 30 * time.Second
	// slowly is how often something is tried again that users have to make room for.
	slowly = 30 * time.Second
	// later is how often something that waits for others is looked at.
	later = time.Second
)

// controller brings things named by strings to where they should be: whenever
// something about one may have changed it is reconciled, one at a time, and
// again after a pause if that failed. It is level-triggered: reconcile looks at
// the table, not at what happened.
type controller struct {
	name      string
	table     *table.Table
	logger    *slog.Logger
	reconcile func(ctx context.Context, name string) error
	queue     workqueue.TypedRateLimitingInterface[string]
}

func newController(name string, t *table.Table, logger *slog.Logger, reconcile func(context.Context, string) error) *controller {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost)
	return &controller{
		name: name, table: t, logger: logger, reconcile: reconcile,
		queue: workqueue.NewTypedRateLimitingQueue(limiter),
	}
}

// source is a topic and whose names its changes concern.
type source struct {
	topic table.Topic
	// rows calls fn for the rows that there are.
	rows  func(s *table.Snapshot, fn func(*table.Row) bool)
	names func(table.Change) []string
}

// run reconciles until the context ends.
func (c *controller) run(ctx context.Context, sources ...source) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range sources {
		group.Go(func() error { return c.follow(ctx, s) })
	}
	group.Go(func() error {
		<-ctx.Done()
		c.queue.ShutDown()
		return nil
	})
	group.Go(func() error {
		for c.next(ctx) {
		}
		return ctx.Err()
	})
	return group.Wait()
}

func (c *controller) next(ctx context.Context) bool {
	name, stop := c.queue.Get()
	if stop {
		return false
	}
	defer c.queue.Done(name)
	err := c.reconcile(ctx, name)
	switch {
	case err == nil:
		c.queue.Forget(name)
	case ctx.Err() != nil:
	case errors.Is(err, errMore):
		c.queue.Forget(name)
		c.queue.Add(name)
	case errors.Is(err, errLater):
		c.queue.Forget(name)
		c.queue.AddAfter(name, later)
	case errors.Is(err, errSlowly):
		c.queue.Forget(name)
		c.queue.AddAfter(name, slowly)
	default:
		if !errors.Is(err, errAgain) {
			c.logger.Warn("reconcile", "controller", c.name, "name", name, "error", err)
		}
		c.queue.AddRateLimited(name)
	}
	return true
}

// errAgain says that somebody else wrote first, or that something is not there yet.
var errAgain = errors.New("try again")

// errMore says that a part is done and the rest may begin when others had their turn.
var errMore = errors.New("more to do")

// errLater says that somebody else has to act first; it is looked at again
// every so often.
var errLater = errors.New("waiting for others")

// errSlowly says that there is no room, and nothing tells when there is.
var errSlowly = errors.New("waiting for room")

// follow enqueues what there is and then what changes. When it falls out of the
// window, or the table was loaded anew meanwhile, perhaps at a lower revision, it
// starts over, so nothing is missed.
func (c *controller) follow(ctx context.Context, s source) error {
	for {
		snapshot := c.table.Snapshot()
		s.rows(snapshot, func(row *table.Row) bool {
			c.enqueue(s.names(table.Change{Cur: row}))
			return true
		})
		sub, err := c.table.Subscribe(s.topic, snapshot.Rev)
		if err == nil {
			err = c.poll(ctx, sub, s)
			sub.Close()
		}
		if !errors.Is(err, table.ErrExpired) && !errors.Is(err, table.ErrFuture) {
			return err
		}
	}
}

func (c *controller) poll(ctx context.Context, sub *table.Subscription, s source) error {
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
				c.enqueue(s.names(ch))
			}
		}
	}
}

func (c *controller) enqueue(names []string) {
	for _, name := range names {
		c.queue.Add(name)
	}
}
