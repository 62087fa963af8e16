package summaries

import (
	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// sight is an object that is looked at. All Summaries that look at it share it, so that it is
// decoded once.
type sight struct {
	*work
	object key.Object
	path   string
	from   v1alpha1.SummarySource
	// isObject reports that it is of an object of the space at all its locations, not of one report.
	isObject  bool
	locations []key.Location
	// row is the object's; nil if there is none.
	row *table.Row
	// as is where it is assigned, if it is an object of the space.
	as   *placement.Membership
	tree *aggregate.Tree
	// reported is what expressions see of what was not placed where it is.
	reported aggregate.Input
	// last is what expressions see at lastLocation; nil: none was made.
	last         *aggregate.Input
	lastLocation key.Location
}

// isThere reports whether there is something to count.
func (s *sight) isThere() bool {
	return s.row != nil && (s.as != nil || s.from != v1alpha1.SummaryDownsynced)
}

// seePlaced is the sight of an object of a space.
func (w *work) seePlaced(o key.Object) *sight {
	s := &sight{work: w, object: o, path: o.Path(), from: v1alpha1.SummaryDownsynced, row: w.Get(o.Key())}
	if s.as = assigned(s.row); s.row != nil {
		s.tree = aggregate.NewTree(s.row.Value)
	}
	return s
}

// seeReported is the sight of an object that was not placed where it is.
func (w *work) seeReported(r key.Report) *sight {
	s := &sight{work: w, object: r.Object, path: r.Path(), from: v1alpha1.SummaryUpsynced, locations: []key.Location{r.Location}}
	if r.Origin == key.Owned {
		s.from = v1alpha1.SummaryAssociated
	}
	row := w.Get(r.Key())
	if row == nil || w.sites[r.Location] == nil {
		return s
	}
	object := []byte(gjson.GetBytes(row.Value, "object").Raw)
	s.row, s.tree = &table.Row{Entry: table.NewEntry(r.Object.Key(), object, row.CreateRev, row.ModRev)}, aggregate.NewTree(object)
	status := syncOf(row.Value)
	status.Applied = true // there is no desired state that it could differ from
	s.reported = w.input(r.Location, s.tree, []byte(gjson.GetBytes(object, "status").Raw), status)
	return s
}

// contribute has a Summary that matches the object count it at a location. It returns what that has
// cost. What several of them ask at one location is evaluated once.
func (s *sight) contribute(in *space, m *summary, l key.Location) (cost int) {
	if m.state == nil {
		m.missed = true
		return costOfRemoval
	}
	if s.last == nil || s.lastLocation != l {
		clear(s.known)
		s.last, s.lastLocation = new(s.inputAt(l)), l
		s.last.Known = s.known
	}
	s.config.Work.Step()
	c := m.definition.Contribute(*s.last)
	s.set(in, m, aggregate.Pair{Path: s.path, Location: l}, c)
	return costOfLook + int(c.Cost) // #nosec G115 -- it is bounded
}

// set replaces what a pair contributes to a Summary.
func (w *work) set(s *space, m *summary, p aggregate.Pair, c aggregate.Contribution) {
	if m.state == nil {
		m.missed = true
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := m.state.Bytes()
	changed := m.state.Set(p, c)
	s.bytes += m.state.Bytes() - before
	if m.state.Full() || s.bytes > maxSpaceBytes && m.state.Bytes() > before {
		s.drop(m)
		m.until = w.now.Add(tryAgain)
		changed = true
	}
	if changed {
		w.mark(m)
	}
}

// inputAt returns the input of expressions for the object at a location.
func (s *sight) inputAt(l key.Location) aggregate.Input {
	if s.as == nil {
		return s.reported
	}
	place, _ := s.as.Place(l)
	var report []byte
	if row := s.Get((key.Report{Location: l, Origin: key.Placed, Object: s.object}).Key()); row != nil {
		report = row.Report()
	}
	v := objectstate.Assigned(s.config.Digest, s.row, place, report, false)
	sync, status := syncOf(report), []byte(nil)
	if gjson.GetBytes(report, "uid").Str == s.row.Meta.UID {
		status = []byte(gjson.GetBytes(report, "status").Raw)
	} else {
		sync = aggregate.Sync{} // it is about an earlier object of the name
	}
	sync.State, sync.Applied, sync.Since, sync.Health = string(v.State), v.State == wire.Applied, v.Since, string(v.Health)
	if sync.Error = ""; v.Failing() || v.State == wire.Held {
		sync.Error = v.Message
	}
	return s.input(l, s.tree, status, sync)
}

// syncOf returns the fields of a report besides the object.
func syncOf(report []byte) (s aggregate.Sync) {
	gjson.ParseBytes(report).ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "state":
			s.State = value.Str
		case "health":
			s.Health = value.Str
		case "generation":
			s.Generation = value.Int()
		case "since":
			s.Since = value.Str
		}
		return name.Str != "status" && name.Str != "object"
	})
	return s
}

func (w *work) input(l key.Location, object *aggregate.Tree, status []byte, sync aggregate.Sync) aggregate.Input {
	location := w.sites[l]
	if location == nil {
		location = &site{values: aggregate.Location(l, nil, nil)}
	}
	sync.Stale = location.stale
	return aggregate.Input{Object: object, Status: aggregate.NewTree(status), Place: location.values, Sync: sync.Values()}
}
