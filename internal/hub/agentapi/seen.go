package agentapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// seen are the reports of one request about objects that no Placement put at the location: whether
// they are requested in the state at the start of the request, and within the location's limits. It
// is for one goroutine.
type seen struct {
	store    *reportStore
	sessions *Sessions
	usage    *upsync.Usage
	queue    *fairqueue.Queue

	agent key.Session
	state table.Reader
	// left is the remaining limit by origin; without an entry, it has not been computed.
	left map[key.Origin]*upsync.Used
	// taken has the sizes of the reports that the request has changed, 0 for removed ones: a line
	// may occur twice.
	taken map[string]int
	// leave ends the location's turn, and now is the state at its start; nil without a turn.
	leave func()
	now   table.Reader
	// grows is set if the request adds or changes a report, and over counts the lines beyond the
	// limits.
	grows bool
	over  int
}

// check returns an error if a report is not requested or not valid.
func (s *seen) check(r key.Report, report *wire.Report) error {
	if !upsync.Wanted(s.state, r, report.Owner) {
		return errors.New("the hub does not ask for the object")
	}
	return upsync.Check(r, report, placement.PlacingOf(s.state.Get(s.agent.Location.Key())))
}

// enter waits for the location's turn. Requests of a location that report such objects are served one
// by one, because each uses up the limits.
func (s *seen) enter(ctx context.Context) error {
	if s.leave != nil {
		return nil
	}
	leave, err := s.queue.Enter(ctx, fairqueue.Flow{Name: string(s.agent.Location)})
	if err != nil {
		return err
	}
	s.leave = leave
	if err := s.store.awaitPending(ctx, s.agent.Location); err != nil { // of requests that have ended
		return err
	}
	if err := s.store.committed(ctx); err != nil {
		return err
	}
	s.now = s.store.table.Snapshot()
	return nil
}

// take returns an error if a checked write exceeds the limits. failed is set if that can't be
// determined.
func (s *seen) take(ctx context.Context, op etcd.Op) (refused, failed error) {
	r, err := key.ParseReport(op.Key)
	if err != nil || r.Origin == key.Placed {
		return err, nil
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	return s.count(r, op), nil
}

// count counts a write, unless it exceeds the limits.
func (s *seen) count(r key.Report, op etcd.Op) error {
	var add upsync.Used
	if op.Value != nil {
		add = upsync.Used{Objects: 1, Bytes: int64(len(op.Value))}
	}
	size, again := s.taken[op.Key]
	if !again {
		size = s.storedSize(op)
	}
	if size > 0 {
		add.Objects, add.Bytes = add.Objects-1, add.Bytes-int64(size)
	}
	left := s.remaining(r.Origin)
	s.grows = s.grows || op.Value != nil
	if add.Objects > 0 && left.Objects < add.Objects || add.Bytes > 0 && left.Bytes < add.Bytes {
		s.over++
		return fmt.Errorf("the location's limits are reached: %s", limitText(s.limits()))
	}
	left.Objects, left.Bytes = left.Objects-add.Objects, left.Bytes-add.Bytes
	if s.taken == nil {
		s.taken = map[string]int{}
	}
	s.taken[op.Key] = len(op.Value)
	return nil
}

// storedSize returns the size of the report that a write replaces, or 0. If another request has written
// the report meanwhile, the write may fail, and is not counted as freeing space.
func (s *seen) storedSize(op etcd.Op) int {
	current, before := s.now.Get(op.Key), s.state.Get(op.Key)
	switch {
	case current == nil:
		return 0
	case len(op.Value) < len(current.Value) && (before == nil || before.ModRev != current.ModRev):
		return len(op.Value)
	}
	return len(current.Value)
}

// remaining returns the remaining limit of an origin.
func (s *seen) remaining(origin key.Origin) *upsync.Used {
	if s.left == nil {
		s.left = map[key.Origin]*upsync.Used{}
	}
	if s.left[origin] == nil {
		most, used := s.limits(), s.usage.Total(s.agent.Location, origin)
		s.left[origin] = &upsync.Used{Objects: most.Objects - used.Objects, Bytes: most.Bytes - used.Bytes}
	}
	return s.left[origin]
}

func (s *seen) limits() upsync.Used {
	var location v1alpha1.Location
	row := s.state.Get(s.agent.Location.Key())
	if row == nil || json.Unmarshal(row.Value, &location) != nil {
		return upsync.Used{}
	}
	return upsync.Limits(&location.Spec)
}

// done records how many lines exceeded the limits, and ends the location's turn.
func (s *seen) done() {
	if s.leave != nil {
		s.leave()
	}
	if s.grows {
		s.sessions.exceed(s.agent, s.over)
	}
}

// limitText describes limits in messages.
func limitText(most upsync.Used) string {
	return fmt.Sprintf("%d objects and %d bytes", most.Objects, most.Bytes)
}
