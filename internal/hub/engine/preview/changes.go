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

// maxRules bounds how many failing rules are named.
const maxRules = 3

// part are locations at which an object's rendering may change alike.
type part struct {
	was, now  *placement.Class
	locations []key.Location
	// treated says that it is also left other values by releases, and held that it is held
	// whatever the rules make of it.
	treated, held bool
}

// failure is what is said of one rule that fails.
type failure struct {
	message string
	counts
	example string
}

// culprit is a rule; its Customizer is empty for what is no rule's fault.
type culprit struct {
	customizer string
	rule       int
}

// rendered is what becomes of renderings when a Customizer changes.
type rendered struct {
	// fail are those that do not fail as it is, still those that do.
	change, fail, still, mend counts
	failures                  map[culprit]*failure
}

// changes says what a Customizer would change.
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
	lines = append(lines, r.culprits()...)
	if r.mend.objects > 0 {
		lines = append(lines, "would no longer fail for "+a.objectsAt(&r.mend, "at")+": "+r.mend.where(""))
	}
	return a.orNothing(lines, "would change nothing")
}

// rendered renders what may change, as it is and as it would be.
func (a *answer) rendered(s placement.Supposition) *rendered {
	r := &rendered{failures: map[culprit]*failure{}}
	known := map[change][]part{}
	left := a.renderings
	all := s.Derive(func(o key.Object, row *table.Row, now *placement.Membership) {
		before, _ := row.In.(*placement.Membership)
		if before == nil || now == nil || !a.lists(o) {
			return
		}
		c := change{before, now}
		parts, ok := known[c]
		if !ok {
			parts = partsOf(c)
			known[c] = parts
		}
		if left -= 2 * len(parts); left >= 0 && !a.try(r, o, row, parts) {
			left = -1
		}
	})
	a.whole = all && left >= 0
	return r
}

// partsOf are the parts of a change that has other renderings.
func partsOf(c change) (parts []part) {
	type alike struct {
		was, now      *placement.Class
		treated, held bool
	}
	at := map[alike]int{}
	for _, was := range c.was.Places() {
		now, ok := c.now.Place(was.Location)
		k := alike{was.Class, now.Class, was.Policy.Release != now.Policy.Release, now.Held != ""}
		switch {
		case !ok || was.Owner != "" || was.Held != "" && now.Held != "":
			continue
		case was.Class.Equal(now.Class) && !k.treated && was.Held == now.Held:
			continue
		}
		i, ok := at[k]
		if !ok {
			i = len(parts)
			at[k], parts = i, append(parts, part{was: was.Class, now: now.Class, treated: k.treated, held: k.held})
		}
		parts[i].locations = append(parts[i].locations, was.Location)
	}
	return parts
}

// try renders an object as it is and as it would be. It is false if there is no more time.
func (a *answer) try(r *rendered, o key.Object, row *table.Row, parts []part) bool {
	var changes, fails, stay, mends []key.Location
	blamed := map[culprit]bool{}
	for _, p := range parts {
		if !a.Now().Before(a.until) {
			return false
		}
		was, failed := a.Renderer.Try(row.Entry, p.was)
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
		case was != now || p.treated:
			changes = append(changes, p.locations...)
		}
	}
	r.change.add(1, changes)
	r.fail.add(1, fails)
	r.still.add(1, stay)
	r.mend.add(1, mends)
	return true
}

// blame notes which rule fails for an object.
func (r *rendered) blame(err error, o key.Object, locations []key.Location, blamed map[culprit]bool) {
	var by culprit
	if failed, ok := errors.AsType[*rules.RuleError](err); ok {
		by, err = culprit{failed.Customizer, failed.Rule}, failed
	} else if failed, ok := errors.AsType[*rules.TemplateError](err); ok {
		err = failed
	}
	f := r.failures[by]
	if f == nil {
		f = &failure{message: brief(err.Error()), example: brief(fmt.Sprintf("%s at %s", o.Identity, locations[0]))}
		r.failures[by] = f
	}
	if !blamed[by] {
		blamed[by] = true
		f.add(1, locations)
		return
	}
	f.addAt(1, locations)
}

// culprits are the rules that fail, those of the most objects first.
func (r *rendered) culprits() (lines []string) {
	all := slices.SortedFunc(maps.Keys(r.failures), func(a, b culprit) int {
		return cmp.Or(cmp.Compare(r.failures[b].objects, r.failures[a].objects), cmp.Compare(a.customizer, b.customizer), cmp.Compare(a.rule, b.rule))
	})
	for _, by := range all[:min(maxRules, len(all))] {
		f := r.failures[by]
		lines = append(lines, fmt.Sprintf("%s: %s at %s, such as %s", f.message, number(f.objects, "object"), number(len(f.at), "location"), f.example))
	}
	if more := len(all) - maxRules; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more rules fail", more))
	}
	return lines
}
