package agents

import (
	"encoding/json"
	"errors"
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/born"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// seen are the reports of one request of what was not placed at a location: whether they are
// wanted in the state that the request began in, and whether there is room for them. It is for
// one goroutine.
type seen struct {
	server   *Server
	location key.Location
	state    table.Reader
	// left is what may be added of each origin; nil: it has not been asked.
	left map[key.Origin]*born.Used
	// asked says that something was to be added or changed, over how many lines there was no
	// room for.
	asked bool
	over  int
}

// check says why a report of what was not placed is not taken.
func (s *seen) check(r key.Report, report *wire.Report) error {
	if !born.Wanted(s.state, r, report.Owner) {
		return errors.New("the hub does not ask for the object")
	}
	return born.Check(r, report)
}

// take says why a write is not done that check has let pass: for want of room.
func (s *seen) take(op store.Op) error {
	r, err := key.ParseReport(op.Key)
	if err != nil || r.Origin == key.Placed {
		return err
	}
	add := born.Used{Objects: 1, Bytes: int64(len(op.Value))}
	if op.Value == nil {
		add = born.Used{}
	}
	if was := s.state.Get(op.Key); was != nil {
		add.Objects, add.Bytes = add.Objects-1, add.Bytes-int64(len(was.Value))
	}
	left := s.of(r.Origin)
	s.asked = s.asked || op.Value != nil
	if add.Objects > 0 && left.Objects < add.Objects || add.Bytes > 0 && left.Bytes < add.Bytes {
		s.over++
		return fmt.Errorf("the location's limits are reached: %s", limitText(s.limits()))
	}
	left.Objects, left.Bytes = left.Objects-add.Objects, left.Bytes-add.Bytes
	return nil
}

// of is what may still be added of an origin.
func (s *seen) of(origin key.Origin) *born.Used {
	if s.left == nil {
		s.left = map[key.Origin]*born.Used{}
	}
	if s.left[origin] == nil {
		most, used := s.limits(), s.server.config.Born.Of(s.location, origin)
		s.left[origin] = &born.Used{Objects: most.Objects - used.Objects, Bytes: most.Bytes - used.Bytes}
	}
	return s.left[origin]
}

func (s *seen) limits() born.Used {
	var location v1alpha1.Location
	row := s.state.Get(s.location.Key())
	if row == nil || json.Unmarshal(row.Value, &location) != nil {
		return born.Used{}
	}
	return born.Limits(&location.Spec)
}

// done notes how much of the request there was no room for.
func (s *seen) done() {
	if s.asked {
		s.server.sessions.exceed(s.location, s.over)
	}
}

// limitText is what people are told of limits.
func limitText(most born.Used) string {
	return fmt.Sprintf("%d objects and %d bytes", most.Objects, most.Bytes)
}
