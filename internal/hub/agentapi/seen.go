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

// seen are the reports of one request of what was not placed at a location: whether they are
// wanted in the state that the request began in, and whether there is room for them. It is for
// one goroutine.
type seen struct {
	server   *Server
	location key.Location
	shard    key.Shard
	state    table.Reader
	// left is what may be added of each origin; nil: it has not been asked.
	left map[key.Origin]*upsync.Used
	// taken is how large the reports are that the request has changed already, 0 if they are
	// to go: a line may be there twice.
	taken map[string]int
	// leave ends the location's turn, and now is the state that it began in; nil: it has none.
	leave func()
	now   table.Reader
	// asked says that something was to be added or changed, over how many lines there was no
	// room for.
	asked bool
	over  int
}

// check says why a report of what was not placed is not taken.
func (s *seen) check(r key.Report, report *wire.Report) error {
	if !upsync.Wanted(s.state, r, report.Owner) {
		return errors.New("the hub does not ask for the object")
	}
	return upsync.Check(r, report, placement.PlacingOf(s.state.Get(s.location.Key())))
}

// enter waits for the location's turn: those of its requests that report what was not placed
// go one by one, since what each may add is what those before have left.
func (s *seen) enter(ctx context.Context) error {
	if s.leave != nil {
		return nil
	}
	leave, err := s.server.seers.Enter(ctx, fairqueue.Flow{Name: string(s.location)})
	if err != nil {
		return err
	}
	s.leave = leave
	if err := s.server.settleReports(ctx, s.location); err != nil { // one that was given up may go on
		return err
	}
	if err := s.server.config.Committed(ctx); err != nil {
		return err
	}
	s.now = s.server.config.Table.Snapshot()
	return nil
}

// take says why a write is not done that check has let pass: for want of room. failed is why
// that can't be said.
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

// count counts a write, unless there is no room for it.
func (s *seen) count(r key.Report, op etcd.Op) error {
	var add upsync.Used
	if op.Value != nil {
		add = upsync.Used{Objects: 1, Bytes: int64(len(op.Value))}
	}
	had, again := s.taken[op.Key]
	if !again {
		had = s.had(op)
	}
	if had > 0 {
		add.Objects, add.Bytes = add.Objects-1, add.Bytes-int64(had)
	}
	left := s.of(r.Origin)
	s.asked = s.asked || op.Value != nil
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

// had is how large the report is that a write replaces; 0: there is none, or the write would
// give room that it does not, since another report of the object has come meanwhile.
func (s *seen) had(op etcd.Op) int {
	is, was := s.now.Get(op.Key), s.state.Get(op.Key)
	switch {
	case is == nil:
		return 0
	case len(op.Value) < len(is.Value) && (was == nil || was.ModRev != is.ModRev):
		return len(op.Value)
	}
	return len(is.Value)
}

// of is what may still be added of an origin.
func (s *seen) of(origin key.Origin) *upsync.Used {
	if s.left == nil {
		s.left = map[key.Origin]*upsync.Used{}
	}
	if s.left[origin] == nil {
		most, used := s.limits(), s.server.config.Born.Of(s.location, origin)
		s.left[origin] = &upsync.Used{Objects: most.Objects - used.Objects, Bytes: most.Bytes - used.Bytes}
	}
	return s.left[origin]
}

func (s *seen) limits() upsync.Used {
	var location v1alpha1.Location
	row := s.state.Get(s.location.Key())
	if row == nil || json.Unmarshal(row.Value, &location) != nil {
		return upsync.Used{}
	}
	return upsync.Limits(&location.Spec)
}

// done notes how much of the request there was no room for, and ends the location's turn.
func (s *seen) done() {
	if s.leave != nil {
		s.leave()
	}
	if s.asked {
		s.server.sessions.exceed(key.Session{Location: s.location, Shard: s.shard}, s.over)
	}
}

// limitText is what people are told of limits.
func limitText(most upsync.Used) string {
	return fmt.Sprintf("%d objects and %d bytes", most.Objects, most.Bytes)
}
