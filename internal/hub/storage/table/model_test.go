package table

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
)

// model keeps the whole state and the whole history, and computes each answer by a search through them.
type model struct {
	rev     int64
	rows    map[string]modelRow
	history []modelStep
	// steps is the maximum number of steps of a window. kept has the revisions of each window, and
	// floors its floor.
	steps  int
	kept   [windowCount][]int64
	floors [windowCount]int64
}

type modelRow struct {
	value             string
	createRev, modRev int64
	members, views    string // joined by ","
}

type modelStep struct {
	rev     int64
	changes map[string]modelChange
}

type modelChange struct{ prev, cur *modelRow }

const policyKey = "o/root/orrery.dev/placements/all"

// namesOf returns the names in a value, which has the form NAMES;REST.
func namesOf(value string) []string {
	names, _, _ := strings.Cut(value, ";")
	if names == "" {
		return nil
	}
	return strings.Split(names, ",")
}

// membersOf returns the locations of an object by the rule of the tests: objects of space s1 belong to
// the locations that their value and that of the policy name, and other keys to none.
func membersOf(k, value, policy string) string {
	if !strings.HasPrefix(k, "o/s1/") || modelWindow(k) != objectWindow {
		return ""
	}
	names := slices.Concat(namesOf(value), namesOf(policy))
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// membership is a Membership that testDeriver interns.
type membership []key.Location

func (m *membership) Locations() []key.Location       { return *m }
func (m *membership) Includes(name key.Location) bool { return slices.Contains(*m, name) }
func (m *membership) SameAt(name key.Location, other Membership) bool {
	return m.Includes(name) == other.Includes(name)
}

// testDeriver recomputes all memberships at each call.
type testDeriver struct{ made map[string]*membership }

func (d *testDeriver) Reset() { d.made = map[string]*membership{} }

func (d *testDeriver) Derive(state Reader, changes []Change) []Assignment {
	policy := ""
	if row := state.Get(policyKey); row != nil {
		policy = string(row.Value)
	}
	changed := map[string]bool{}
	for _, c := range changes {
		changed[c.Row().Key] = true
	}
	var all []Assignment
	state.Ascend("o/", func(row *Row) bool {
		var in Membership
		if names := membersOf(row.Key, string(row.Value), policy); names != "" {
			if d.made[names] == nil {
				var m membership
				for name := range strings.SplitSeq(names, ",") {
					m = append(m, key.Location(name))
				}
				d.made[names] = &m
			}
			in = d.made[names]
		}
		if changed[row.Key] && in != nil || !changed[row.Key] && in != row.In {
			all = append(all, Assignment{Key: row.Key, In: in})
		}
		return true
	})
	return all
}

func (m *model) apply(rev int64, updates []Update) {
	before := m.rows
	after := maps.Clone(before)
	for _, u := range updates {
		if u.Value == nil {
			delete(after, u.Key)
		} else {
			after[u.Key] = modelRow{value: string(u.Value), createRev: u.CreateRev, modRev: u.ModRev}
		}
	}
	for k, row := range after {
		row.members = membersOf(k, row.value, after[policyKey].value)
		row.views = viewsOf(k, row.value, after[exposurePolicyKey].value)
		after[k] = row
	}
	step := modelStep{rev, map[string]modelChange{}}
	for k := range union(before, after) {
		prev, isPrevious := before[k]
		cur, isCurrent := after[k]
		if isPrevious && isCurrent && prev == cur {
			continue
		}
		var c modelChange
		if isPrevious {
			c.prev = &prev
		}
		if isCurrent {
			c.cur = &cur
		}
		step.changes[k] = c
	}
	m.rev, m.rows = rev, after
	m.history = append(m.history, step)
	m.slide(step)
}

func union(a, b map[string]modelRow) map[string]struct{} {
	all := map[string]struct{}{}
	for k := range a {
		all[k] = struct{}{}
	}
	for k := range b {
		all[k] = struct{}{}
	}
	return all
}

func (m *model) slide(step modelStep) {
	touched := map[int]bool{}
	for k := range step.changes {
		touched[modelWindow(k)] = true
	}
	for w := range touched {
		m.kept[w] = append(m.kept[w], step.rev)
		if len(m.kept[w]) > m.steps {
			m.floors[w], m.kept[w] = m.kept[w][0], m.kept[w][1:]
		}
	}
}

// modelWindow returns the window of a key.
func modelWindow(k string) int {
	switch {
	case strings.HasPrefix(k, "r/"):
		return reportWindow
	case strings.Contains(k, "/core/events/"), strings.Contains(k, "/leases/"):
		return eventWindow
	}
	return objectWindow
}

// modelTopic is a Topic with the rule by which the model matches changes.
type modelTopic struct {
	Topic
	window  int
	matches func(k string, c modelChange) bool
}

func topicOfPrefix(prefix string) modelTopic {
	window := modelWindow(prefix)
	return modelTopic{PrefixTopic(prefix), window, func(k string, _ modelChange) bool {
		return strings.HasPrefix(k, prefix) && modelWindow(k) == window
	}}
}

func topicOfKey(only string) modelTopic {
	return modelTopic{KeyTopic(only), modelWindow(only), func(k string, _ modelChange) bool { return k == only }}
}

func topicOfResource(r key.Resource) modelTopic {
	return modelTopic{ResourceTopic(r), modelWindow("o/x/" + r.String() + "/"), func(k string, _ modelChange) bool {
		s := strings.Split(k, "/")
		return s[0] == "o" && len(s) > 4 && s[2] == r.Group && s[3] == r.Resource
	}}
}

func topicOfReports(l, s string) modelTopic {
	return modelTopic{ReportTopic(key.Location(l), key.Space(s), key.Resource{Group: "core", Resource: "configmaps"}), reportWindow, func(k string, _ modelChange) bool {
		segments := strings.Split(k, "/")
		return segments[0] == "r" && (l == "" || segments[1] == l) && (s == "" || segments[2] == s) && segments[4] == "core" && segments[5] == "configmaps"
	}}
}

// floor returns the highest floor of the windows of topics.
func (m *model) floor(topics []modelTopic) (floor int64) {
	for _, t := range topics {
		floor = max(floor, m.floors[t.window])
	}
	return floor
}

func topicOfLocation(member string) modelTopic {
	return modelTopic{LocationTopic(key.Location(member)), objectWindow, func(_ string, c modelChange) bool {
		isPrevious := c.prev != nil && slices.Contains(strings.Split(c.prev.members, ","), member)
		isCurrent := c.cur != nil && slices.Contains(strings.Split(c.cur.members, ","), member)
		return isPrevious != isCurrent || isPrevious && c.prev.modRev != c.cur.modRev
	}}
}

// since returns the steps after a revision and up to another, as strings.
func (m *model) since(s *subscriber, after, upTo int64) (steps []string) {
	for _, step := range m.history {
		if step.rev <= after || step.rev > upTo {
			continue
		}
		var changes []string
		for k, c := range step.changes {
			if s.matches(k, c) {
				changes = append(changes, fmt.Sprintf("%s: %s => %s", k, c.prev, c.cur))
			}
		}
		if len(changes) > 0 {
			slices.Sort(changes)
			steps = append(steps, fmt.Sprintf("%d %q", step.rev, changes))
		}
	}
	return steps
}

func (r *modelRow) String() string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%s@%d,%d[%s][%s]", r.value, r.createRev, r.modRev, r.members, r.views)
}

func rowText(r *Row) string {
	if r == nil {
		return "-"
	}
	m := &modelRow{value: string(r.Value), createRev: r.CreateRev, modRev: r.ModRev, views: exposureText(r.Exposure)}
	if r.In != nil {
		var names []string
		for _, l := range r.In.Locations() {
			names = append(names, string(l))
		}
		m.members = strings.Join(names, ",")
	}
	return m.String()
}

func stepText(s Step) string {
	var changes []string
	for _, c := range s.Changes {
		changes = append(changes, fmt.Sprintf("%s: %s => %s", c.Row().Key, rowText(c.Prev), rowText(c.Cur)))
	}
	slices.Sort(changes)
	return fmt.Sprintf("%d %q", s.Rev, changes)
}
