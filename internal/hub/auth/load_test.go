package auth

import (
	"encoding/json"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// load creates many Grants in a space, like those that a starting hub finds.
func (w *world) load(s key.Space, n int, spec func(i int) v1alpha1.GrantSpec) {
	w.t.Helper()
	var state []table.Update
	for i := range n {
		name := fmt.Sprint("g", i)
		value, err := json.Marshal(v1alpha1.Grant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec(i)})
		if err != nil {
			w.t.Fatal(err)
		}
		state = append(state, table.Update{Key: objectIn(s, key.Grants, name).Key(), Value: value, CreateRev: 1, ModRev: 1})
	}
	w.table.Reset(1, state)
}

func users(names ...string) (all []v1alpha1.GrantSubject) {
	for _, name := range names {
		all = append(all, v1alpha1.GrantSubject{Kind: v1alpha1.GrantSubjectUser, Name: name})
	}
	return all
}

// largest returns the largest rule that a Grant accepts, with a number of object names.
func largest(names int) v1alpha1.GrantRule {
	const n = 64
	return v1alpha1.GrantRule{
		Verbs: append(numbered("verb", n-1), "get"), APIGroups: numbered("group", n), Resources: numbered("resource", n), ResourceNames: numbered("name", names),
	}
}

// TestIndexIsAsLargeAsGrants: the index of a Grant grows with its subjects, not with subjects times
// spaces, and finds the Grant for each subject.
func TestIndexIsAsLargeAsGrants(t *testing.T) {
	w := newWorld(t)
	const grants, subjects = 50, 128
	w.load(key.Root, grants, func(i int) v1alpha1.GrantSpec {
		return v1alpha1.GrantSpec{
			Subjects: append(users(numbered(fmt.Sprint("u", i, "-"), subjects)...), users(fmt.Sprint("u", i, "-0"))...),
			Roles:    []v1alpha1.GrantRole{{Name: v1alpha1.RoleView}},
			Spaces:   &v1alpha1.SpaceSelector{Names: numbered(fmt.Sprint("s", i, "-"), 256)},
		}
	})
	entries := 0
	for _, list := range w.grants.byHolder {
		entries += len(list)
	}
	if entries != grants*subjects {
		t.Errorf("%d entries of %d Grants with %d subjects", entries, grants, subjects)
	}
	for request, want := range map[string]int{
		"GET /spaces/s7-255/api/v1/pods": 200, "GET /spaces/s7-0/api/v1/pods": 200, "GET /spaces/s8-0/api/v1/pods": 403, "GET /spaces/root/api/v1/pods": 403, "GET /spaces/*/api/v1/pods": 403,
	} {
		if code := w.code(named("u7-127"), request); code != want {
			t.Errorf("%s: %d, want %d", request, code, want)
		}
	}
	for i := range grants {
		w.grant(key.Root, fmt.Sprint("g", i), "")
	}
	if len(w.grants.byHolder) != 0 || len(w.grants.all) != 0 {
		t.Errorf("left: %d and %d", len(w.grants.byHolder), len(w.grants.all))
	}
}

// TestReviewsOfRulesAreBounded: a review of very large rules lists a limited part of them, and
// reports that it is incomplete.
func TestReviewsOfRulesAreBounded(t *testing.T) {
	review := func(w *world, s key.Space) (size int, text string) {
		t.Helper()
		status := w.decides.rulesFor(route.Space(s), w.decides.catalog(key.Root), named("jane"), "n")
		answer, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		if status.EvaluationError != "" && !status.Incomplete {
			t.Error("what is not all is not said to be incomplete")
		}
		return len(answer), status.EvaluationError
	}
	const most = 2 * maxReviewed // a response also contains field names

	w := newWorld(t)
	w.load("a", 1000, func(int) v1alpha1.GrantSpec {
		return v1alpha1.GrantSpec{Subjects: users("jane"), Rules: []v1alpha1.GrantRule{largest(256)}}
	})
	if size, text := review(w, "a"); size > most || text == "" {
		t.Errorf("large rules: %d bytes, %q", size, text)
	}

	w = newWorld(t)
	w.load(key.Root, 64, func(i int) v1alpha1.GrantSpec {
		spec := v1alpha1.GrantSpec{Subjects: users("jane")}
		for range 16 {
			spec.Rules = append(spec.Rules, largest(256))
		}
		if i%2 == 0 {
			spec.Spaces = &v1alpha1.SpaceSelector{Selector: &metav1.LabelSelector{}}
		}
		return spec
	})
	if size, text := review(w, key.AllSpaces); size > most || text == "" {
		t.Errorf("in all spaces: %d bytes, %q", size, text)
	}

	w = newWorld(t)
	w.load("a", 5000, func(int) v1alpha1.GrantSpec {
		return v1alpha1.GrantSpec{Subjects: users("jane"), Roles: []v1alpha1.GrantRole{{Name: v1alpha1.RoleEdit}, {Name: v1alpha1.RoleView, Namespaces: []string{"n"}}}}
	})
	if size, text := review(w, "a"); size > 64<<10 || text != "" {
		t.Errorf("roles: %d bytes, %q", size, text)
	}
}

// BenchmarkEscalation checks the largest allowed Grant, for a writer with the largest rules.
func BenchmarkEscalation(b *testing.B) {
	h := &held{z: &Authorizer{grants: NewGrants()}, space: "a"}
	for range 64 {
		rule := largest(256)
		h.rules = append(h.rules, newHeldRule(policyRule(&rule), nil))
	}
	rule := largest(0)
	request := rbacv1.PolicyRule{Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: []string{"name1", "name2"}}
	b.ReportAllocs()
	for b.Loop() {
		h.steps = 0
		for range 64 {
			h.lacking(request, nil, &lacks{})
		}
	}
	b.ReportMetric(float64(h.steps), "steps")
}
