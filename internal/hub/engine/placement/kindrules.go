package placement

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// kindRules is one compiled KindRules.
type kindRules struct {
	scope
	object key.Object
	health Health
	// id identifies the KindRules and its spec.
	id string
}

// compileKindRules compiles the row of a KindRules; nil if it is not in effect, or healthOf is nil.
func compileKindRules(o key.Object, row *table.Row, healthOf HealthOf) *kindRules {
	if !acts(row) || healthOf == nil {
		return nil
	}
	k := &kindRules{scope: scope{name: o.Name, spec: specOf(row), everywhere: true}, object: o}
	var spec v1alpha1.KindRulesSpec
	if k.spec != "" {
		if err := json.Unmarshal([]byte(k.spec), &spec); err != nil {
			k.problems = append(k.problems, fmt.Sprintf("spec: %v", err))
			return k
		}
	}
	for i, kinds := range spec.Kinds {
		k.tests = append(k.tests, compileTest(fmt.Sprintf("kinds[%d]", i), v1alpha1.ObjectTest{APIGroup: &kinds.APIGroup, Resources: kinds.Resources}))
	}
	k.noteProblems()
	health, problems := healthOf(&spec)
	k.health, k.problems = health, append(k.problems, problems...)
	sum := sha256.Sum256([]byte(o.Path() + "\n" + k.spec))
	k.id = string(sum[:])
	return k
}

// matches reports whether the rules apply to a kind.
func (k *kindRules) matches(s subject) bool {
	return slices.ContainsFunc(k.tests, func(t objectTest) bool { return t.fit(s) })
}

// kindRulesIndex holds the KindRules of each space.
type kindRulesIndex map[key.Space]policies[*kindRules]

// prepare compiles a changed KindRules, unless it acts as before.
func (x kindRulesIndex) prepare(o key.Object, row *table.Row, healthOf HealthOf) (compiled *kindRules, isSame bool) {
	if i, isKnown := x[o.Space].find(o.Name); isKnown && x[o.Space][i].isSame(row) {
		return nil, true
	}
	return compileKindRules(o, row, healthOf), false
}

// healthOf returns the health rules for an object; nil if there are none.
func (x kindRulesIndex) healthOf(s subject) *HealthRules {
	var h *HealthRules
	for _, k := range x[s.Space] {
		if !k.matches(s) {
			continue
		}
		if h == nil {
			h = &HealthRules{}
		}
		if len(h.Rules) >= MaxHealthRules {
			h.Omitted++
			continue
		}
		h.Rules = append(h.Rules, HealthRule{KindRules: k.object, Health: k.health})
		h.id += k.id
	}
	if h != nil && h.Omitted > 0 {
		h.id += strconv.Itoa(h.Omitted)
	}
	return h
}

// KindRulesProblems returns the errors in the spec of a KindRules. ok is false if it does not exist
// or is being deleted. It only reads the state, so any goroutine may call it. healthOf is that of the
// Engine.
func KindRulesProblems(state table.Reader, o key.Object, healthOf HealthOf) (problems []string, ok bool) {
	k := compileKindRules(o, state.Get(o.Key()), healthOf)
	if k == nil {
		return nil, false
	}
	return k.problems, true
}
