package preview

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxRules bounds the failing rules that are named.
const maxRules = 3

// renderingChange is a change of the rendering class of an object, with the locations that have it.
type renderingChange struct {
	old, now  *placement.Class
	locations []key.Location
	// treated reports whether the released values change as well. held reports whether the object
	// will be held, whatever the rules do.
	treated, held bool
}

// failure describes one failing rule.
type failure struct {
	message string
	counts
	example string
}

// failedRule is a rule; its Customizer is empty for other errors.
type failedRule struct {
	customizer string
	rule       int
}

// rendered counts the changed renderings after a change of a Customizer.
type rendered struct {
	// fail counts renderings that begin to fail, still those that fail before and after, mend those
	// that cease to fail.
	change, fail, still, mend counts
	failures                  map[failedRule]*failure
}

// changes describes the changes by a Customizer.
func (a *answer) changes(s placement.Supposition) []string { return a.changed(a.rendered(s)) }

func (a *answer) changed(r *rendered) (lines []string) {
	if r.change.objects > 0 {
		lines = append(lines, "would change "+a.objectsAt(&r.change, "at")+": "+r.change.where(""))
	}
	if r.fail.objects > 0 {
		lines = append(lines, "would fail for "+a.objectsAt(&r.fail, "at")+", which keep what they have: "+r.fail.where(""))
	}
	if r.still.objects > 0 {
		lines = append(lines, "would still fail for "+a.objectsAt(&r.still, "at")+": "+r.still.where(""))
	}
	lines = append(lines, r.failedRules()...)
	if r.mend.objects > 0 {
		lines = append(lines, "would no longer fail for "+a.objectsAt(&r.mend, "at")+": "+r.mend.where(""))
	}
	return a.orNothing(lines, "would change nothing")
}

// rendered renders the objects that may change, before and after.
func (a *answer) rendered(s placement.Supposition) *rendered {
	r := &rendered{failures: map[failedRule]*failure{}}
	known := map[change][]renderingChange{}
	left := a.renderings
	all := s.Derive(func(o key.Object, row *table.Row, now *placement.Membership) {
		before, _ := row.In.(*placement.Membership)
		if before == nil || now == nil || !a.lists(o) {
			return
		}
		c := change{before, now}
		cases, ok := known[c]
		if !ok {
			cases = renderingChangesOf(c)
			known[c] = cases
		}
		if left -= 2 * len(cases); left >= 0 && !a.try(r, o, row, cases) {
			left = -1
		}
	})
	a.whole = all && left >= 0
	return r
}

// renderingChangesOf returns the changes of renderings by a change of a Membership.
func renderingChangesOf(c change) (cases []renderingChange) {
	type alike struct {
		old, now      *placement.Class
		treated, held bool
	}
	index := map[alike]int{}
	for _, old := range c.old.Places() {
		now, ok := c.now.Place(old.Location)
		k := alike{old.Class, now.Class, old.Policy.Release != now.Policy.Release, now.Held != ""}
		switch {
		case !ok || old.Owner != "" || old.Held != "" && now.Held != "":
			continue
		case old.Class.Equal(now.Class) && !k.treated && old.Held == now.Held:
			continue
		}
		i, ok := index[k]
		if !ok {
			i = len(cases)
			index[k], cases = i, append(cases, renderingChange{old: old.Class, now: now.Class, treated: k.treated, held: k.held})
		}
		cases[i].locations = append(cases[i].locations, old.Location)
	}
	return cases
}

// try renders an object before and after. It returns false after the time limit.
func (a *answer) try(r *rendered, o key.Object, row *table.Row, cases []renderingChange) bool {
	var changes, fails, stay, mends []key.Location
	blamed := map[failedRule]bool{}
	for _, p := range cases {
		if !a.Now().Before(a.until) {
			return false
		}
		old, failed := a.Renderer.Try(row.Entry, p.old)
		now, fail := a.Renderer.Try(row.Entry, p.now)
		if p.held {
			fail = errors.New("more values are released than can be")
		}
		if fail != nil {
			r.blame(fail, o, p.locations, blamed)
		}
		switch {
		case fail != nil && failed != nil:
			stay = append(stay, p.locations...)
		case fail != nil:
			fails = append(fails, p.locations...)
		case failed != nil:
			mends = append(mends, p.locations...)
		case old != now || p.treated:
			changes = append(changes, p.locations...)
		}
	}
	r.change.add(1, changes)
	r.fail.add(1, fails)
	r.still.add(1, stay)
	r.mend.add(1, mends)
	return true
}

// blame records the rule that fails for an object.
func (r *rendered) blame(err error, o key.Object, locations []key.Location, blamed map[failedRule]bool) {
	var failing failedRule
	if failed, ok := errors.AsType[*rules.RuleError](err); ok {
		failing, err = failedRule{failed.Customizer, failed.Rule}, failed
	} else if failed, ok := errors.AsType[*rules.TemplateError](err); ok {
		err = failed
	}
	f := r.failures[failing]
	if f == nil {
		f = &failure{message: brief(err.Error()), example: brief(fmt.Sprintf("%s at %s", o.Identity, locations[0]))}
		r.failures[failing] = f
	}
	if !blamed[failing] {
		blamed[failing] = true
		f.add(1, locations)
		return
	}
	f.addAt(1, locations)
}

// failedRules describes the failing rules, those of the most objects first.
func (r *rendered) failedRules() (lines []string) {
	all := slices.SortedFunc(maps.Keys(r.failures), func(a, b failedRule) int {
		return cmp.Or(cmp.Compare(r.failures[b].objects, r.failures[a].objects), cmp.Compare(a.customizer, b.customizer), cmp.Compare(a.rule, b.rule))
	})
	for _, failing := range all[:min(maxRules, len(all))] {
		f := r.failures[failing]
		lines = append(lines, fmt.Sprintf("%s: %s at %s, such as %s", f.message, number(f.objects, "object"), number(len(f.byLocation), "location"), f.example))
	}
	if more := len(all) - maxRules; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more rules fail", more))
	}
	return lines
}
