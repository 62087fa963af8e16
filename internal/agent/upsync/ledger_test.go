package upsync

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

var (
	configMaps = kubeclient.Served{Place: kubeclient.Place{Resource: key.ConfigMaps, Version: "v1"}, Kind: "ConfigMap", Namespaced: true}
	pods       = kubeclient.Served{Place: kubeclient.Place{Resource: key.NewResource("", "pods"), Version: "v1"}, Kind: "Pod", Namespaced: true}
	all        = []wire.Upsync{{Space: "s", Group: "core", Resources: []string{"configmaps"}}}
)

// seen returns an object in the form of a list.
func seen(t testing.TB, k *kind, name, more string) *sighting {
	t.Helper()
	o := &ownership.Answer{}
	if err := o.UnmarshalJSON(fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"n","uid":"uid-%s"%s}`, name, name, more)); err != nil {
		t.Fatal(err)
	}
	return sight(k, o, false)
}

// reported returns the names of the objects that have a report after the changes.
func reported(t *testing.T, in map[string]bool, changes []change) (names []string) {
	t.Helper()
	for _, c := range changes {
		if delete(in, c.line); c.report != nil {
			in[c.line] = true
		}
	}
	for line := range in {
		r, err := key.ParseLine("", line)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// TestLimits shows that reports stay while further objects wait in the order of their names, and that these are
// searched only if there is more room than before.
func TestLimits(t *testing.T) {
	l := newLedger(newRequests(all, key.Same), limits{2, 2000})
	k, in := l.graph.observe(configMaps, true, true), map[string]bool{}
	for _, name := range []string{"d", "c", "b", "a"} {
		l.see(seen(t, k, name, `}`), time.Time{})
	}
	if got := reported(t, in, l.out.take()); !slices.Equal(got, []string{"c", "d"}) || l.upsynced.waiting() != 2 {
		t.Errorf("reported are %q, %d wait", got, l.upsynced.waiting())
	}
	l.upsynced.budget.freed = false
	l.see(seen(t, k, "z", `}`), time.Time{})
	if l.upsynced.refill(); l.upsynced.budget.freed || len(l.reads.needed) > 0 {
		t.Errorf("waiting objects are read without room: %v", l.reads.needed)
	}
	l.gone(k, "n", "d")
	if l.upsynced.refill(); len(l.reads.needed) != 1 || l.upsynced.budget.freed {
		t.Errorf("with room for one, %d are read", len(l.reads.needed))
	}
	for n := range l.reads.needed {
		l.see(seen(t, k, n.name, `}`), time.Time{})
	}
	if got := reported(t, in, l.out.take()); !slices.Equal(got, []string{"a", "c"}) || l.upsynced.waiting() != 2 {
		t.Errorf("reported are %q, %d wait", got, l.upsynced.waiting())
	}
	l.setRequests(newRequests(all, key.Same), limits{1, 2000})
	if got := reported(t, in, l.out.take()); !slices.Equal(got, []string{"a"}) {
		t.Errorf("reported are %q", got)
	}
	// The report of an object that grows beyond the limit is removed, and the object is not read again.
	l.see(seen(t, k, "a", `,"annotations":{"x":"`+fmt.Sprintf("%01900d", 7)+`"}}`), time.Time{})
	if got := reported(t, in, l.out.take()); len(got) > 0 {
		t.Errorf("reported are %q", got)
	}
	for range 3 {
		l.upsynced.refill()
		for n := range l.reads.needed {
			if n.name == "a" {
				t.Fatal("an object that is too large is read again")
			}
			l.see(seen(t, k, n.name, `}`), time.Time{})
		}
	}
	if got := reported(t, in, l.out.take()); !slices.Equal(got, []string{"b"}) || l.upsynced.budget.freed {
		t.Errorf("reported are %q, freed %v", got, l.upsynced.budget.freed)
	}
}

// TestBounds shows that of the objects that belong to one placed object, the unhealthy ones are reported first, then
// the newest. The number of omitted ones is reported.
func TestBounds(t *testing.T) {
	l := newLedger(newRequests(nil, key.Same), limits{10, 1000})
	k, in := l.graph.observe(pods, true, true), map[string]bool{}
	source := key.Object{Space: "s", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "n", Name: "r"}}
	l.place(source.Identity.String(), store.Root{Source: source, Identity: source.Identity, UID: "uid-r", Associated: "core/pods"}, true)
	const many = mostOwned + 10
	for i := range many {
		ready := "True"
		if i == 3 {
			ready = "False"
		}
		l.see(seen(t, k, fmt.Sprintf("p%02d", i), fmt.Sprintf(`,"creationTimestamp":"2026-01-01T00:00:%02dZ","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"r","uid":"uid-r","controller":true}]},
			"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q}]}`, i, ready)), time.Time{})
	}
	got := reported(t, in, l.out.take())
	if len(got) != mostOwned || got[0] != "p03" || got[1] != fmt.Sprintf("p%02d", many-mostOwned+1) {
		t.Errorf("reported are %d: %q", len(got), got)
	}
	if n := l.associated.omitted[source.Identity.String()]; n != 10 {
		t.Errorf("%d are reported as omitted", n)
	}
	l.gone(k, "n", "p59")
	if len(l.reads.needed) != 1 {
		t.Errorf("with room for one, %d are read", len(l.reads.needed))
	}
	l.place(source.Identity.String(), store.Root{}, false)
	if got := reported(t, in, l.out.take()); len(got) > 0 {
		t.Errorf("without a placed object, reported are %q", got)
	}
}

// TestOwnersAndHealth shows that PersistentVolumeClaims belong to their StatefulSet, and objects of controllers to
// the placed object. Each has the health of its kind: an object without a status is Healthy while it exists, and an
// Event has none.
func TestOwnersAndHealth(t *testing.T) {
	l := newLedger(newRequests(nil, key.Same), limits{10, 1 << 20})
	kindOf := func(group, resource, name string) *kind {
		return l.graph.observe(kubeclient.Served{Place: kubeclient.Place{Resource: key.NewResource(group, resource), Version: "v1"}, Kind: name, Namespaced: true}, true, true)
	}
	sets, claims := kindOf("apps", "statefulsets", "StatefulSet"), kindOf("", "persistentvolumeclaims", "PersistentVolumeClaim")
	ends, events := kindOf("discovery.k8s.io", "endpointslices", "EndpointSlice"), kindOf("", "events", "Event")
	for _, id := range []key.Identity{{Resource: sets.Resource, Namespace: "n", Name: "db"}, {Resource: key.NewResource("", "services"), Namespace: "n", Name: "web"}} {
		root := store.Root{
			Source: key.Object{Space: "s", Identity: id}, Identity: id, UID: "uid-" + id.Name,
			Associated: "core/events\ncore/persistentvolumeclaims\ndiscovery.k8s.io/endpointslices",
		}
		l.place(id.String(), root, true)
	}
	owner := func(version, kind, name string) string {
		return fmt.Sprintf(`,"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":"uid-%s","controller":true}]`, version, kind, name, name)
	}
	l.see(seen(t, sets, "db", `},"spec":{"volumeClaimTemplates":[{"metadata":{"name":"data"}},{"metadata":{"name":"my-log"}}]}`), time.Time{})
	l.see(seen(t, claims, "data-db-0", `},"status":{"phase":"Bound"}`), time.Time{})
	l.see(seen(t, claims, "my-log-db-12", `},"status":{"phase":"Pending"}`), time.Time{})
	for _, others := range []string{"data-db2-0", "data-dbx", "log-db-0", "db-0", "data"} {
		l.see(seen(t, claims, others, `},"status":{"phase":"Bound"}`), time.Time{})
	}
	l.see(seen(t, ends, "web-x1", owner("v1", "Service", "web")+`},"endpoints":[]`), time.Time{})
	l.see(seen(t, ends, "web-x2", owner("v1", "Service", "web")+`,"deletionTimestamp":"2026-01-01T00:00:00Z"}`), time.Time{})
	l.see(seen(t, ends, "other-x1", owner("v1", "Service", "other")+`}`), time.Time{})
	l.see(seen(t, events, "e", `},"involvedObject":{"apiVersion":"v1","kind":"Service","uid":"uid-web"}`), time.Time{})
	const db, web = "apps/statefulsets/n/db", "core/services/n/web"
	want := map[string][2]string{
		"~owned:s/core/persistentvolumeclaims/n/data-db-0":    {db, string(wire.Healthy)},
		"~owned:s/core/persistentvolumeclaims/n/my-log-db-12": {db, string(wire.Progressing)},
		"~owned:s/discovery.k8s.io/endpointslices/n/web-x1":   {web, string(wire.Healthy)},
		"~owned:s/discovery.k8s.io/endpointslices/n/web-x2":   {web, string(wire.Progressing)},
		"~owned:s/core/events/n/e":                            {web, ""},
	}
	got := map[string][2]string{}
	for _, c := range l.out.take() {
		if delete(got, c.line); c.report != nil {
			got[c.line] = [2]string{c.report.Owner, string(c.report.Health)}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("reported are %v, want %v", got, want)
	}
	l.place(db, store.Root{}, false)
	l.place(web, store.Root{}, false)
	for _, c := range l.out.take() {
		delete(got, c.line)
	}
	if len(got) > 0 {
		t.Errorf("after the removal of the placed objects, reports are left: %v", got)
	}
}

// TestRests shows that the changes of an object that keeps changing are reported at intervals, and the last one in
// any case. A new object, a change of health, and a deletion are reported at once.
func TestRests(t *testing.T) {
	l := newLedger(newRequests([]wire.Upsync{{Space: "s", Group: "core", Resources: []string{"configmaps", "pods"}}}, key.Same), limits{10, 1 << 20})
	kept, k := l.graph.observe(configMaps, true, true), l.graph.observe(pods, true, true)
	now := time.Now()
	shows := func(k *kind, after time.Duration, more string) bool {
		now = now.Add(after)
		l.see(seen(t, k, "a", more), now)
		return len(l.out.take()) > 0
	}
	text := func(n int) string { return fmt.Sprintf(`,"annotations":{"n":"%d"}}`, n) }
	if !shows(kept, 0, text(0)) || !shows(kept, time.Second, text(1)) {
		t.Error("a new object, or its first change, is not reported at once")
	}
	reported := 0
	for n := range 65 {
		if shows(kept, time.Second, text(2+n)) {
			reported++
		}
	}
	if reported != 6 {
		t.Errorf("of 65 seconds of changes %d are reported", reported)
	}
	if wait := l.reads.requestDelayed(now); wait <= 0 || wait > reportDelay+eventDelay || len(l.reads.needed) > 0 {
		t.Errorf("it is read again in %s, at once are %d", wait, len(l.reads.needed))
	}
	if now = now.Add(reportDelay + eventDelay); l.reads.requestDelayed(now) != 0 || len(l.reads.needed) != 1 || len(l.reads.delayed) != 0 {
		t.Errorf("%d are read, %d are delayed", len(l.reads.needed), len(l.reads.delayed))
	}
	if !shows(kept, 0, text(66)) || len(l.reads.needed) > 0 {
		t.Error("the last change is not reported")
	}
	if shows(kept, time.Second, text(66)) || len(l.reads.delayed) > 0 {
		t.Error("an unchanged object rests")
	}
	if !shows(kept, time.Second, `,"deletionTimestamp":"2026-01-01T00:00:00Z"}`) {
		t.Error("the beginning of its deletion is not reported at once")
	}
	shows(kept, time.Second, text(67))
	if l.gone(kept, "n", "a"); len(l.out.take()) != 1 || len(l.reads.delayed) > 0 {
		t.Error("its deletion is not reported at once")
	}
	pod := func(n int, phase, ready string) string {
		return text(n)[:len(text(n))-1] + fmt.Sprintf(`},"status":{"phase":%q,"conditions":[{"type":"Ready","status":%q}]}`, phase, ready)
	}
	shows(k, 0, pod(0, "Running", "True"))
	shows(k, time.Second, pod(1, "Running", "True"))
	if shows(k, time.Second, pod(2, "Running", "True")) || !shows(k, time.Second, pod(3, "Pending", "False")) {
		t.Error("of a Pod, not only a change of health is reported at once")
	}
}
