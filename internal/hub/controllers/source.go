package controllers

import (
	"context"
	"errors"
	"time"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
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

// relistFirst and relistMost bound the pause before the rows are listed again. It grows with each subscription that
// ends within relistMost: a watch that cannot keep up must not list all rows all the time.
const relistFirst, relistMost = retry.First, 10 * time.Second

// follow returns the watch of a source. If the subscription falls out of a window, or the table is
// reloaded, perhaps at a lower revision, it lists the rows again, after a pause. So no change is missed.
func follow(t *table.Table, s source) watch {
	return func(ctx context.Context, enqueue func([]string)) error {
		for failures := uint8(0); ; failures = min(failures+1, retry.MaxFailures) {
			snapshot := t.Snapshot()
			s.rows(snapshot, func(row *table.Row) bool {
				enqueue(s.names(table.Change{Cur: row}))
				return ctx.Err() == nil
			})
			if err := ctx.Err(); err != nil {
				return err
			}
			began := time.Now()
			sub, err := t.Subscribe(snapshot.Rev, nil, s.topics...)
			if err == nil {
				err = s.poll(ctx, sub, enqueue)
				sub.Close()
			}
			if !errors.Is(err, table.ErrExpired) && !errors.Is(err, table.ErrFuture) {
				return err
			}
			if time.Since(began) >= relistMost {
				failures = 0
			}
			retry.Pause(ctx, retry.Backoff(failures, relistFirst, relistMost))
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

// below visits the rows below some prefixes.
func below(prefixes ...string) func(*table.Snapshot, func(*table.Row) bool) {
	return func(s *table.Snapshot, fn func(*table.Row) bool) {
		for _, prefix := range prefixes {
			more := true
			s.Ascend(prefix, func(row *table.Row) bool {
				more = fn(row)
				return more
			})
			if !more {
				return
			}
		}
	}
}

// prefixTopics returns the topics of all keys below some prefixes.
func prefixTopics(prefixes ...string) (topics []table.Topic) {
	for _, prefix := range prefixes {
		topics = append(topics, table.PrefixTopic(prefix))
	}
	return topics
}

// resourceTopics returns the topics of all objects of some resources.
func resourceTopics(resources ...key.Resource) (topics []table.Topic) {
	for _, r := range resources {
		topics = append(topics, table.ResourceTopic(r))
	}
	return topics
}

// inAllSpaces visits the rows of a resource in all spaces.
func inAllSpaces(r key.Resource) func(*table.Snapshot, func(*table.Row) bool) {
	return func(s *table.Snapshot, fn func(*table.Row) bool) {
		var prefixes []string
		for _, name := range write.All(s) {
			prefixes = append(prefixes, key.ResourcePrefix(name, r))
		}
		below(prefixes...)(s, fn)
	}
}

// byKey enqueues the key of the changed row.
func byKey(ch table.Change) []string { return []string{ch.Row().Key} }

// besides returns the keys of the objects of a resource in a space.
func besides(t *table.Table, s key.Space, r key.Resource) (keys []string) {
	t.Snapshot().Ascend(key.ResourcePrefix(s, r), func(row *table.Row) bool {
		keys = append(keys, row.Key)
		return true
	})
	return keys
}
