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
	// since is the time before which nothing had changed of what this call takes.
	since time.Time
	// known is for the object that is looked at, at one location.
	known aggregate.Known
}

// take notes what has changed in a space.
func (w *work) take(name key.Space, n *ofSpace) {
	if n.anew {
		w.remove(name)
	}
	s := w.spaces[name]
	if s == nil {
		if len(n.summaries) == 0 {
			return
		}
		s = &space{name: name, summaries: map[string]*summary{}, placed: map[string]*placement.Membership{}}
		w.mu.Lock()
		w.spaces[name] = s
		w.mu.Unlock()
	}
	for k := range n.keys {
		s.todo.push(k, w.since)
	}
	for m := range n.summaries {
		w.config.Work.Step()
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
	row, previous := w.Get(o.Key()), s.summaries[name]
	if row == nil || row.Meta.Deleting || v1alpha1.IsForBelow(row.Meta.Labels) {
		if previous != nil {
			w.mu.Lock()
			s.drop(previous)
			delete(s.summaries, name)
			w.mu.Unlock()
		}
		return
	}
	spec := gjson.GetBytes(row.Value, "spec").Raw
	if previous != nil && previous.spec == spec {
		w.mu.Lock()
		previous.generation = row.Meta.Generation
		w.mu.Unlock()
		w.mark(previous) // another client may have written its status
		return
	}
	m := &summary{object: o, generation: row.Meta.Generation, spec: strings.Clone(spec)}
	m.compile(w.config.Language)
	w.mu.Lock()
	if previous != nil {
		s.drop(previous)
	}
	s.summaries[name] = m
	m.filling = m.definition != nil
	w.mu.Unlock()
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

// drop frees what a Summary holds. The Index is locked.
func (s *space) drop(m *summary) {
	if m.state != nil {
		s.bytes -= m.state.Bytes()
	}
	m.state, m.fill, m.filling = nil, scan{}, false
}

// begin has all counted anew that a Summary matches.
func (w *work) begin(s *space, m *summary) {
	if m.definition == nil {
		w.mark(m)
		return
	}
	w.needSites()
	var prefixes []string
	if m.from == v1alpha1.SummaryDownsynced {
		m.tests.Prefixes(s.name, func(prefix string) { prefixes = append(prefixes, prefix) })
	} else {
		for l := range w.sites {
			prefixes = append(prefixes, key.SpaceReports(l, s.name)+string(origin(m.from))+"/")
		}
	}
	fill := newScan(prefixes)
	w.mu.Lock()
	s.drop(m)
	m.state, m.filling, m.fill, m.missed = aggregate.NewState(m.definition), true, fill, false
	m.began, m.isLate = w.now, false
	w.mu.Unlock()
	s.filling = append(s.filling, m)
}

func origin(from v1alpha1.SummarySource) key.Origin {
	switch from {
	case v1alpha1.SummaryUpsynced:
		return key.Upsynced
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

// workOnAll does some of what there is to do in each space; more reports that there is more.
func (w *work) workOnAll() (more bool) {
	busy := 0
	for _, s := range w.spaces {
		w.tryAgain(s)
		if s.isBusy() {
			busy++
		}
	}
	for _, s := range w.spaces {
		w.workOn(s, min(w.budget, max(minBudget, maxBudget/max(busy, 1))))
		w.noteLate(s)
		if more = more || s.isBusy(); len(s.summaries) == 0 {
			w.remove(s.name)
		}
	}
	return more
}

// tryAgain has Summaries counted again that were given up for a while, if something has changed.
func (w *work) tryAgain(s *space) {
	for _, m := range s.summaries {
		if m.definition != nil && m.state == nil && m.missed && !w.now.Before(m.until) {
			w.begin(s, m)
		}
	}
}

// remove forgets a space.
func (w *work) remove(name key.Space) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.spaces, name)
}

// isBusy reports whether there is something to do in a space.
func (s *space) isBusy() bool {
	_, waits := s.todo.first()
	return s.current != nil || waits || len(s.filling) > 0
}

// oldest returns the time since which a change of the space waits; zero if none does.
func (s *space) oldest() time.Time {
	if s.current != nil && !s.current.since.IsZero() {
		return s.current.since
	}
	first, _ := s.todo.first()
	return first.since
}

// latePace is how often the Summaries of a space show another time at most: each of them is then written.
func (s *space) latePace() time.Duration {
	return max(lateAfter, time.Duration(len(s.summaries))*latePerSummary)
}

// noteLate has the Summaries of a space show since when they are late, or that they no longer are.
func (w *work) noteLate(s *space) {
	var asOf time.Time
	if oldest := s.oldest(); !oldest.IsZero() && w.now.Sub(oldest) >= lateAfter {
		asOf = oldest.Truncate(lateAfter)
	}
	switch {
	case asOf.IsZero() || asOf.Before(s.asOf) || asOf.Equal(s.asOf):
	case !s.asOf.IsZero() && w.now.Sub(s.moved) < s.latePace():
		asOf = s.asOf // an earlier time is right, too
	default:
		s.moved = w.now
	}
	moved := !asOf.Equal(s.asOf)
	w.mu.Lock()
	defer w.mu.Unlock()
	s.asOf = asOf
	for _, m := range s.summaries {
		begins := m.filling && !m.isLate && w.now.Sub(m.began) >= lateAfter
		if m.isLate = m.isLate || begins; begins || moved && !m.filling {
			w.dirty[m.object] = struct{}{}
		}
	}
}

// workOn does some of what there is to do in a space, up to a cost that the last pair may exceed.
func (w *work) workOn(s *space, most int) {
	for most > 0 && s.isBusy() {
		if s.current == nil {
			if most -= w.choose(s); s.current == nil {
				continue
			}
		}
		cost, isDone := w.advance(s, s.current, most)
		s.spend(s.current, cost)
		if most -= cost; isDone {
			s.current = nil
		}
	}
}

// spend notes the cost of a task. No kind of task is behind while only one kind waits.
func (s *space) spend(t *task, cost int) {
	_, changes := s.todo.first()
	switch {
	case !changes || len(s.filling) == 0:
		s.ahead = 0
	case !t.isFirst:
		s.ahead += cost
	default:
		s.ahead -= cost
	}
}

// choose chooses the next task, if there is one, and returns what that has cost. Changes, in their order,
// and objects that are counted for the first time share the budget, and so do the Summaries that count
// for the first time. A Summary of which all was counted is shown.
func (w *work) choose(s *space) (cost int) {
	_, waits := s.todo.first()
	if waits && (len(s.filling) == 0 || s.ahead <= 0) {
		s.current = &task{waiting: s.todo.pop()}
		return 0
	}
	if len(s.filling) == 0 {
		return 0
	}
	m := s.filling[0]
	s.filling = s.filling[1:]
	if !m.filling || m.fill.isDone() {
		if m.filling {
			w.mu.Lock()
			m.filling, m.isLate = false, false
			w.mu.Unlock()
			w.mark(m)
		}
		return 1
	}
	k, rows := m.fill.take(w.Snapshot, func(row *table.Row) bool { return m.from != v1alpha1.SummaryDownsynced || assigned(row) != nil })
	if s.filling = append(s.filling, m); k != "" {
		s.current = &task{waiting: waiting{key: k}, only: m, isFirst: true}
	}
	if waits {
		s.ahead -= rows + 1
	}
	return rows + 1
}

// site has the fields of a location that expressions and counts use.
type site struct {
	stale bool
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
	sites := map[key.Location]*site{}
	w.Ascend(key.ResourcePrefix(key.Root, key.Locations), func(row *table.Row) bool {
		if l, ok := key.LocationOf(row.Key); ok {
			sites[l] = siteOf(l, row)
		}
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites = sites
}

func siteOf(l key.Location, row *table.Row) *site {
	raw := gjson.GetBytes(row.Value, "spec.properties").Raw
	return &site{
		stale: objectstate.IsRowStale(row), raw: strings.Clone(raw), labels: row.Meta.Labels,
		values: aggregate.Location(l, row.Meta.Labels.Map(), []byte(raw)),
	}
}

// moved follows a location: whether its reports are stale, and its values.
func (w *work) moved(l key.Location) {
	if w.sites == nil {
		return
	}
	previous, row := w.sites[l], w.Get(l.Key())
	now := &site{}
	if row != nil {
		now = siteOf(l, row)
	}
	w.mu.Lock()
	if delete(w.sites, l); row != nil {
		w.sites[l] = now
	}
	w.mu.Unlock()
	came := (previous == nil) != (row == nil) // or went
	if previous == nil {
		previous = &site{}
	}
	flipped, changed := previous.stale != now.stale, previous.raw != now.raw || !slices.Equal(previous.labels, now.labels)
	if !flipped && !changed && !came {
		return
	}
	for _, s := range w.spaces {
		again := came
		for _, m := range s.summaries {
			if m.definition != nil && (flipped && m.definition.Uses.Sync || changed && m.definition.Uses.Location) {
				again = true
			}
			if flipped && m.state != nil && m.state.ObjectsAt(l) > 0 {
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
		if as.Contains(l) {
			if o, err := key.ParsePath(path); err == nil {
				s.todo.push(key.Report{Location: l, Origin: key.Placed, Object: o}.Key(), w.since)
			}
		}
	}
	w.Ascend(key.SpaceReports(l, s.name), func(row *table.Row) bool {
		s.todo.push(row.Key, w.since)
		return true
	})
}
