package summaries

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// work is one call of Work.
type work struct {
	*Index
	*table.Snapshot
	now time.Time
	// known is for the object that is looked at, at one location.
	known aggregate.Known
}

// take notes what has changed in a space.
func (w *work) take(name key.Space, n *ofSpace) {
	if n.anew {
		delete(w.spaces, name)
	}
	s := w.spaces[name]
	if s == nil {
		if len(n.summaries) == 0 {
			return
		}
		s = &space{name: name, summaries: map[string]*summary{}, placed: map[string]*placement.Membership{}, todo: map[string]struct{}{}}
		w.spaces[name] = s
	}
	for k := range n.keys {
		s.todo[k] = struct{}{}
	}
	for m := range n.summaries {
		w.define(s, m)
	}
	for _, m := range s.summaries {
		if n.namespaces && m.tests.ByNamespace() {
			w.begin(s, m)
		}
	}
}

// define takes over a Summary's spec.
func (w *work) define(s *space, name string) {
	o := key.Object{Space: s.name, Identity: key.Identity{Resource: key.Summaries, Name: name}}
	row, was := w.Get(o.Key()), s.summaries[name]
	if row == nil || row.Meta.Deleting || v1alpha1.IsForBelow(row.Meta.Labels) {
		if was != nil {
			s.drop(was)
			delete(s.summaries, name)
		}
		return
	}
	spec := gjson.GetBytes(row.Value, "spec").Raw
	if was != nil && was.spec == spec {
		was.generation = row.Meta.Generation
		w.mark(was) // somebody may have written its status
		return
	}
	if was != nil {
		s.drop(was)
	}
	m := &summary{object: o, generation: row.Meta.Generation, spec: strings.Clone(spec)}
	s.summaries[name] = m
	m.compile(w.config.Language)
	w.begin(s, m)
}

// compile compiles the spec.
func (m *summary) compile(l *aggregate.Language) {
	var spec v1alpha1.SummarySpec
	if m.spec != "" {
		if err := json.Unmarshal([]byte(m.spec), &spec); err != nil {
			m.problems = append(m.problems, "spec: "+err.Error())
			return
		}
	}
	m.from = cmp.Or(spec.From, v1alpha1.SummaryDownsynced)
	m.tests, m.problems = placement.CompileTests("match", spec.Match)
	var errs field.ErrorList
	m.definition, errs = l.Compile(&spec, field.NewPath("spec"))
	for _, err := range errs {
		m.problems = append(m.problems, err.Error())
	}
}

// drop frees what a Summary holds.
func (s *space) drop(m *summary) {
	if m.state != nil {
		s.bytes -= m.state.Bytes()
	}
	m.state, m.fill, m.filling = nil, nil, false
}

// begin has all counted anew that a Summary matches.
func (w *work) begin(s *space, m *summary) {
	s.drop(m)
	m.missed = false
	if m.definition == nil {
		w.mark(m)
		return
	}
	m.state, m.filling = aggregate.NewState(m.definition), true
	w.needSites()
	if m.from == v1alpha1.SummaryDownsynced {
		seen := map[string]struct{}{} // prefixes may be below each other
		m.tests.Prefixes(s.name, func(prefix string) {
			w.Ascend(prefix, func(row *table.Row) bool {
				if _, twice := seen[row.Key]; !twice && assigned(row) != nil {
					seen[row.Key] = struct{}{}
					m.fill = append(m.fill, row.Key)
				}
				return true
			})
		})
		return
	}
	for l := range w.sites {
		w.Ascend(key.SpaceReports(l, s.name)+string(origin(m.from))+"/", func(row *table.Row) bool {
			m.fill = append(m.fill, row.Key)
			return true
		})
	}
}

func origin(from v1alpha1.SummarySource) key.Origin {
	switch from {
	case v1alpha1.SummaryUpsynced:
		return key.Born
	case v1alpha1.SummaryAssociated:
		return key.Owned
	}
	return key.Placed
}

// assigned is where a row's object is assigned; nil if it is not.
func assigned(row *table.Row) *placement.Membership {
	if row == nil {
		return nil
	}
	as, _ := row.In.(*placement.Membership)
	if as == nil || as.Leaves() {
		return nil
	}
	return as
}

// mark notes that a Summary's status may have changed.
func (w *work) mark(m *summary) {
	if !m.filling {
		w.dirty[m.object] = struct{}{}
	}
}

// workOn does some of what there is to do in a space; more says that there is more.
func (w *work) workOn(s *space) (more bool) {
	left := budget
	for k := range s.todo {
		if left <= 0 {
			return true
		}
		delete(s.todo, k)
		left -= w.look(s, k, nil)
	}
	for _, m := range s.summaries {
		if m.definition != nil && m.state == nil && m.missed && !w.now.Before(m.until) {
			w.begin(s, m)
		}
		for len(m.fill) > 0 && left > 0 {
			k := m.fill[len(m.fill)-1]
			m.fill = m.fill[:len(m.fill)-1]
			left -= w.look(s, k, m)
		}
		if len(m.fill) > 0 {
			more = true
		} else if m.filling {
			m.filling, m.fill = false, nil
			w.mark(m)
		}
	}
	return more
}

// site is what is known of a location.
type site struct {
	away bool
	// raw identifies values, which expressions see.
	raw    string
	labels table.Labels
	values map[string]any
}

// needSites learns what there is of locations when the first Summary comes.
func (w *work) needSites() {
	if w.sites != nil {
		return
	}
	w.sites = map[key.Location]*site{}
	w.Ascend(key.ResourcePrefix(key.Root, key.Locations), func(row *table.Row) bool {
		if l, ok := key.LocationOf(row.Key); ok {
			w.sites[l] = siteOf(l, row)
		}
		return true
	})
}

func siteOf(l key.Location, row *table.Row) *site {
	raw := gjson.GetBytes(row.Value, "spec.properties").Raw
	return &site{
		away: objectstate.RowAway(row), raw: strings.Clone(raw), labels: row.Meta.Labels,
		values: aggregate.Location(l, row.Meta.Labels.Map(), []byte(raw)),
	}
}

// moved follows a location: that it is away or back, and its values.
func (w *work) moved(l key.Location) {
	if w.sites == nil {
		return
	}
	was, row := w.sites[l], w.Get(l.Key())
	now := &site{}
	if delete(w.sites, l); row != nil {
		now = siteOf(l, row)
		w.sites[l] = now
	}
	came := (was == nil) != (row == nil) // or went
	if was == nil {
		was = &site{}
	}
	flipped, changed := was.away != now.away, was.raw != now.raw || !slices.Equal(was.labels, now.labels)
	if !flipped && !changed && !came {
		return
	}
	for _, s := range w.spaces {
		again := came
		for _, m := range s.summaries {
			if m.definition != nil && (flipped && m.definition.Uses.Sync || changed && m.definition.Uses.Location) {
				again = true
			}
			if flipped && m.state != nil && m.state.At(l) > 0 {
				w.mark(m)
			}
		}
		if again {
			w.lookAgain(s, l)
		}
	}
}

// lookAgain has all that a space has at a location looked at again.
func (w *work) lookAgain(s *space, l key.Location) {
	for path, as := range s.placed {
		if as.Has(l) {
			if o, err := key.ParsePath(path); err == nil {
				s.todo[key.Report{Location: l, Origin: key.Placed, Object: o}.Key()] = struct{}{}
			}
		}
	}
	w.Ascend(key.SpaceReports(l, s.name), func(row *table.Row) bool {
		s.todo[row.Key] = struct{}{}
		return true
	})
}
