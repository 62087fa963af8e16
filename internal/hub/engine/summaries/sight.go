package summaries

import (
	"github.com/tidwall/gjson"

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
	path string
	// row is the object's; nil if there is none.
	row *table.Row
	// as is where it is assigned, if it is an object of the space.
	as   *placement.Membership
	tree *aggregate.Tree
	// reported is what expressions see of what was not placed where it is.
	reported aggregate.Input
}

// seePlaced is the sight of an object of a space.
func (w *work) seePlaced(o key.Object) *sight {
	s := &sight{work: w, path: o.Path(), row: w.Get(o.Key())}
	if s.as = assigned(s.row); s.row != nil {
		s.tree = aggregate.NewTree(s.row.Value)
	}
	return s
}

// seeReported is the sight of an object that was not placed where it is.
func (w *work) seeReported(r key.Report) *sight {
	s := &sight{work: w, path: r.Path()}
	row := w.Get(r.Key())
	if row == nil || w.sites[r.Location] == nil {
		return s
	}
	object := []byte(gjson.GetBytes(row.Value, "object").Raw)
	s.row, s.tree = &table.Row{Entry: table.NewEntry(r.Object.Key(), object, row.CreateRev, row.ModRev)}, aggregate.NewTree(object)
	said := saidBy(row.Value)
	said.Applied = true // it is as it should be, since nobody says how
	s.reported = w.input(r.Location, s.tree, []byte(gjson.GetBytes(object, "status").Raw), said)
	return s
}

// contribute has the Summaries that match the object count it at a location. It says what
// that has cost. What several of them ask is evaluated once.
func (s *sight) contribute(in *space, all []*summary, l key.Location) (cost int) {
	var input *aggregate.Input
	for _, m := range all {
		if m.state == nil {
			m.missed = true
			continue
		}
		if input == nil {
			if input = new(s.at(l)); len(all) > 1 {
				clear(s.known)
				input.Known = s.known
			}
		}
		s.config.Work.Step()
		c := m.definition.Contribute(*input)
		s.set(in, m, aggregate.Pair{Path: s.path, Location: l}, c)
		cost += costOfLook + int(c.Cost) // #nosec G115 -- it is bounded
	}
	return cost
}

// at is what expressions see of the object at a location.
func (s *sight) at(l key.Location) aggregate.Input {
	if s.as == nil {
		return s.reported
	}
	place, _ := s.as.Place(l)
	var report []byte
	o, _ := key.ParsePath(s.path)
	if row := s.Get((key.Report{Location: l, Origin: key.Placed, Object: o}).Key()); row != nil {
		report = row.Report()
	}
	v := objectstate.Assigned(s.config.Digest, s.row, place, report, false)
	said, status := saidBy(report), []byte(nil)
	if gjson.GetBytes(report, "uid").Str == s.row.Meta.UID {
		status = []byte(gjson.GetBytes(report, "status").Raw)
	} else {
		said = aggregate.Sync{} // it is about an earlier object of the name
	}
	said.State, said.Applied, said.Since, said.Health = string(v.State), v.State == wire.Applied, v.Since, string(v.Health)
	if said.Error = ""; v.Failing() || v.State == wire.Held {
		said.Error = v.Message
	}
	return s.input(l, s.tree, status, said)
}

// saidBy is what a report says besides the object.
func saidBy(report []byte) (s aggregate.Sync) {
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

func (w *work) input(l key.Location, object *aggregate.Tree, status []byte, said aggregate.Sync) aggregate.Input {
	at := w.sites[l]
	if at == nil {
		at = &site{values: aggregate.Location(l, nil, nil)}
	}
	said.Stale = at.away
	return aggregate.Input{Object: object, Status: aggregate.NewTree(status), At: at.values, Sync: said.Values()}
}
