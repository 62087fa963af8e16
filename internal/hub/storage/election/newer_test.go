package election_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/election"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/etcdtest"
	"orrery.dev/orrery/test/support/limit"
)

// outdated is a Member that reports a newer hub, or none.
type outdated struct {
	*presence.Member
	mu      sync.Mutex
	lives   bool
	changed chan struct{}
}

func (o *outdated) Newer() (lives bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lives, o.changed
}

func (o *outdated) set(lives bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lives = lives
	close(o.changed)
	o.changed = make(chan struct{})
}

// TestNewerIsElected: a hub resigns when a newer one appears, although its lease continues, and is
// a candidate again when the newer one is gone.
func TestNewerIsElected(t *testing.T) {
	server := etcdtest.Listen(t, nil)
	one, newer := stand(t, server), stand(t, server)
	old := &outdated{Member: one.member, changed: make(chan struct{})}
	terms := runs(t, election.New(one.log, one.table, old, slog.New(slog.NewTextHandler(t.Output(), nil))))
	term := next(t, terms)
	old.set(true)
	limit.Closed(t, term.Done(), "the term beside a newer hub ends")
	ctx, stop := context.WithCancel(t.Context())
	elected, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- newer.Run(ctx, task, func(ctx context.Context) error {
			elected <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	limit.Receive(t, elected, "the newer hub is elected")
	if row, _ := newer.table.Get(key.Election(task)); row == nil || string(row.Value) != newer.member.ID() {
		t.Errorf("elected is %v", row)
	}
	stop()
	_ = limit.Receive(t, ended, "the newer hub's election has ended")
	newer.stop()
	old.set(false)
	next(t, terms)
}
