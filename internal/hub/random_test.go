package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// TestRandomLife lets users do random things in two spaces with three
// locations. After every step each view must equal what a naive reading of
// etcd says, and clients that were cut off and resumed must have seen it come.
func TestRandomLife(t *testing.T) {
	t.Parallel() // it does one thing after the other
	r := startPrepared(t, t.TempDir(), followSites)
	l := &life{r: r, agents: map[key.Location]*follower{}, watches: map[key.Space]*watcher{}, located: map[key.Space]*watcher{}}
	for _, s := range []key.Space{"s1", "s2"} {
		r.addSpace(s)
		l.watches[s], l.located[s] = &watcher{seen: map[string]string{}}, &watcher{}
	}
	for _, name := range []key.Location{"l1", "l2", "l3"} {
		r.addLocation(name, map[string]string{"where": "x"})
		l.agents[name] = &follower{agent: r.join(name), have: holding{}}
	}
	before, reports := readTruth(t, r), &watcher{}
	for step := range seeds.Reduced(200) {
		l.rng = seeds.Rand(t, uint64(step)) // later steps do not depend on what this one draws
		what, cause := l.act()
		t.Logf("step %d: %s", step, what)
		truth := readTruth(t, r)
		for name, f := range l.agents {
			for k := range before.assigned(name) {
				if !truth.assigned(name)[k] {
					f.causes = append(f.causes, k+" "+string(cause))
				}
			}
		}
		before = truth
		l.say()
		l.checkReports(step, what, reports)
		for _, s := range slices.Sorted(maps.Keys(l.watches)) {
			l.checkSpace(step, what, s, truth, l.watches[s])
			l.checkLocations(step, what, s, truth, l.located[s])
		}
		for _, name := range slices.Sorted(maps.Keys(l.agents)) {
			l.checkLocation(step, what, name, truth, l.agents[name])
		}
	}
}

type life struct {
	r       *running
	rng     *rand.Rand
	agents  map[key.Location]*follower
	watches map[key.Space]*watcher
	// located are watches of the locations in each space.
	located map[key.Space]*watcher
}

// pick chooses one of some words.
func (l *life) pick(words ...string) string { return words[l.rng.IntN(len(words))] }

// act sends a random request of a user, which the hub may refuse. cause is the wanted cause of the resulting
// removals.
func (l *life) act() (did string, cause wire.Cause) {
	cause = wire.Unassigned
	s := key.Space(l.pick("s1", "s2"))
	space := l.r.space(s)
	configMaps := space.Resource(configMapsGVR).Namespace("default")
	name, ctx := l.pick("c1", "c2", "c3", "c4"), l.r.t.Context()
	var err error
	var what string
	switch l.rng.IntN(16) {
	case 0, 1, 2:
		what = "create " + name
		labels := map[string]string{"what": l.pick("a", "b", "none")}
		_, err = configMaps.Create(ctx, object("v1", "ConfigMap", "default", name, labels, nil), metav1.CreateOptions{})
	case 3, 4:
		body := fmt.Sprintf(`{"data":{"k":"%d"},"metadata":{"labels":{"what":%q}}}`, l.rng.IntN(3), l.pick("a", "b", "none"))
		what = "edit " + name + " " + body
		_, err = configMaps.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	case 5:
		what, cause = "delete "+name, wire.Deleted
		err = configMaps.Delete(ctx, name, metav1.DeleteOptions{})
	case 6:
		placement := l.pick("p1", "p2")
		u := object("orrery.dev/v1alpha1", "Placement", "", placement, nil, map[string]any{"spec": map[string]any{
			"suspend":   l.rng.IntN(5) == 0,
			"locations": []any{map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"where": l.pick("x", "y")}}}},
			"downsync":  []any{map[string]any{"labelSelectors": []any{map[string]any{"matchLabels": map[string]any{"what": l.pick("a", "b")}}}}},
		}})
		what = "place " + placement + " " + text(u.Object["spec"])
		_, err = space.Resource(placementsGVR).Apply(ctx, placement, u, metav1.ApplyOptions{FieldManager: "life", Force: true})
	case 7:
		what, cause = "unplace", wire.Deleted
		err = space.Resource(placementsGVR).Delete(ctx, l.pick("p1", "p2"), metav1.DeleteOptions{})
	case 8:
		body := fmt.Sprintf(`{"metadata":{"labels":{"where":%q}}}`, l.pick("x", "y"))
		location := l.pick("l1", "l2", "l3")
		what = "relabel " + location + " " + body
		_, err = l.r.space(key.Root).Resource(locationsGVR).Patch(ctx, location, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	case 9, 10:
		customizer := l.pick("z1", "z2")
		spec := map[string]any{
			"match": []any{map[string]any{"labelSelectors": []any{map[string]any{"matchLabels": map[string]any{"what": l.pick("a", "b")}}}}},
			"rules": []any{map[string]any{"path": "$.data." + l.pick("k", "l"), "release": true}},
		}
		if where := l.pick("x", "y", ""); where != "" {
			spec["locations"] = []any{map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"where": where}}}}
		}
		u := object("orrery.dev/v1alpha1", "Customizer", "", customizer, nil, map[string]any{"spec": spec})
		what = "customize " + customizer + " " + text(spec)
		_, err = space.Resource(customizersGVR).Apply(ctx, customizer, u, metav1.ApplyOptions{FieldManager: "life", Force: true})
	case 11:
		what = "do not customize"
		err = space.Resource(customizersGVR).Delete(ctx, l.pick("z1", "z2"), metav1.DeleteOptions{})
	case 12, 13:
		location, admit := l.pick("l1", "l2", "l3"), l.pick("null", "null", "[]", `[{"spaces":{"names":["s1"]}}]`, `[{"spaces":{"names":["s2"]}},{"namespaces":["other"]}]`,
			`[{"spaces":{"selector":{"matchLabels":{"tier":"x"}}},"kinds":[{"apiGroup":""}]}]`, `[{"kinds":[{"apiGroup":"apps"}]},{"spaces":{"selector":{}}}]`,
			`[{"spaces":{"names":["s1","s2"]},"kinds":[{"resources":["secrets"]}]}]`)
		what = "admit at " + location + " " + admit
		_, err = l.r.space(key.Root).Resource(locationsGVR).Patch(ctx, location, types.MergePatchType, []byte(`{"spec":{"admit":`+admit+`}}`), metav1.PatchOptions{})
	case 14:
		what = "label the space"
		_, err = l.r.space(key.Root).Resource(spacesGVR).Patch(ctx, string(s), types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"tier":%q}}}`, l.pick("x", "y")), metav1.PatchOptions{})
	case 15:
		what = "make the space again"
		l.makeAgain(s)
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		l.r.t.Fatalf("%s: %v", what, err)
	}
	return string(s) + ": " + what, cause
}

// makeAgain deletes a space and, once it can be had again, makes it anew.
func (l *life) makeAgain(s key.Space) {
	l.r.t.Helper()
	spaces := l.r.space(key.Root).Resource(spacesGVR)
	if err := spaces.Delete(l.r.t.Context(), string(s), metav1.DeleteOptions{}); err != nil {
		l.r.t.Fatal(err)
	}
	l.r.eventually(func() string {
		if _, err := spaces.Get(l.r.t.Context(), string(s), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "the space is still there"
		}
		return ""
	})
	l.r.addSpace(s)
	l.r.eventually(func() string { // its loop has not seen it
		if _, err := l.r.space(s).Resource(namespacesGVR).Get(l.r.t.Context(), "default", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	l.watches[s], l.located[s] = &watcher{seen: map[string]string{}}, &watcher{}
}

// checkLocations compares the locations that a space sees, by a list and by a watch that
// is cut, with those that admit it.
func (l *life) checkLocations(step int, what string, s key.Space, tr truth, w *watcher) {
	l.r.t.Helper()
	resource := l.r.space(s).Resource(locationsGVR)
	list, err := resource.List(l.r.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.r.t.Fatal(err)
	}
	want, got := map[string]string{}, map[string]string{}
	for name := range l.agents {
		space, _ := tr.admitted(s, name)
		if space {
			want[string(name)] = "there"
		}
		if _, err := resource.Get(l.r.t.Context(), string(name), metav1.GetOptions{}); space != (err == nil) {
			l.r.t.Fatalf("step %d (%s): get of location %s in space %s: %v", step, what, name, s, err)
		}
	}
	for _, u := range list.Items {
		if got[u.GetName()] = "there"; dig(u.Object, "spec", "admit") != nil {
			l.r.t.Fatalf("step %d (%s): space %s receives the admission rules of %s", step, what, s, u.GetName())
		}
	}
	if !maps.Equal(got, want) {
		l.r.t.Fatalf("step %d (%s): space %s sees the locations %v, want %v", step, what, s, got, want)
	}
	if w.rv == "" {
		w.rv, w.seen = list.GetResourceVersion(), got
		return
	}
	w.short = func(*unstructured.Unstructured) string { return "there" }
	if l.rng.IntN(3) == 0 && !w.follow(l.r.t, resource, got) {
		l.r.t.Fatalf("step %d (%s): a watch of the locations in space %s saw %v, the list has %v", step, what, s, w.seen, got)
	}
}

// watcher follows the ConfigMaps of a space by watches that are cut.
type watcher struct {
	rv   string
	seen map[string]string // name to resourceVersion, or to what short says of the object
	// short is nil for the resourceVersion.
	short func(*unstructured.Unstructured) string
}

func (l *life) checkSpace(step int, what string, s key.Space, tr truth, w *watcher) {
	l.r.t.Helper()
	resource := l.r.space(s).Resource(configMapsGVR)
	list, err := resource.List(l.r.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.r.t.Fatal(err)
	}
	want, got := tr.below("o/"+string(s)+"/core/configmaps/default/"), map[string]string{}
	for _, u := range list.Items {
		got[u.GetName()] = u.GetResourceVersion()
		stored := want[u.GetName()]
		u.SetResourceVersion("")
		if a, b := text(u.Object), text(stored); a != b {
			l.r.t.Fatalf("step %d (%s): space %s shows %s, etcd has %s", step, what, s, a, b)
		}
	}
	if len(got) != len(want) {
		l.r.t.Fatalf("step %d (%s): space %s lists %d ConfigMaps, etcd has %d", step, what, s, len(got), len(want))
	}
	if w.rv == "" {
		w.rv, w.seen = list.GetResourceVersion(), got
		return
	}
	if l.rng.IntN(3) > 0 {
		return // several steps pass before the watch resumes
	}
	if !w.follow(l.r.t, resource, got) {
		l.r.t.Fatalf("step %d (%s): a watch of space %s resumed at %s saw %v, the list has %v", step, what, s, w.rv, w.seen, got)
	}
}

// named is how an object is called in what was seen.
func (w *watcher) named(u *unstructured.Unstructured) string {
	if namespace, _, wide := strings.Cut(u.GetNamespace(), "--"); wide {
		return namespace + "--default/" + u.GetName()
	}
	return u.GetName()
}

// follow watches from where it stopped until it has seen the state that a list
// gave.
func (w *watcher) follow(t testing.TB, resource dynamic.ResourceInterface, want map[string]string) bool {
	t.Helper()
	if maps.Equal(w.seen, want) {
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	watching, err := resource.Watch(ctx, metav1.ListOptions{ResourceVersion: w.rv})
	if err != nil {
		t.Fatalf("watch from %s: %v", w.rv, err)
	}
	defer watching.Stop()
	for e := range watching.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("watch from %s: %+v", w.rv, e.Object)
		}
		switch e.Type {
		case watch.Added, watch.Modified:
			w.seen[w.named(u)] = u.GetResourceVersion()
			if w.short != nil {
				w.seen[w.named(u)] = w.short(u)
			}
		case watch.Deleted:
			delete(w.seen, w.named(u))
		case watch.Error:
			t.Fatalf("watch from %s: %+v", w.rv, u)
		}
		w.rv = u.GetResourceVersion()
		if maps.Equal(w.seen, want) {
			return true
		}
	}
	return false
}

// follower follows a location by streams that are cut.
type follower struct {
	agent  *testAgent
	have   holding
	rev    int64
	marker string
	// causes are those of what has gone since, in order, as "KEY CAUSE".
	causes []string
}

func (l *life) checkLocation(step int, what string, name key.Location, tr truth, f *follower) {
	t := l.r.t
	t.Helper()
	want := tr.content(name)
	d, err := dynamic.NewForConfig(l.r.config(route.View(name).String()))
	if err != nil {
		t.Fatal(err)
	}
	list, err := d.Resource(configMapsGVR).List(t.Context(), metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // a view without ConfigMaps does not have the resource
		t.Fatal(err)
	}
	got := map[string]string{}
	if err == nil {
		for _, u := range list.Items {
			u.SetResourceVersion("")
			got[u.GetName()] = text(u.Object)
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("step %d (%s): the view of %s has %v, etcd says %v", step, what, name, got, want)
	}
	if l.rng.IntN(3) > 0 {
		return // the agent stays away for some steps
	}
	s := f.agent.open(f.rev, f.marker)
	hello, _ := s.next()
	switch {
	case hello.Hello == nil:
		t.Fatalf("step %d: %s got %+v", step, name, hello)
	case hello.Hello.Resumed:
		mark, causes := f.have.causes(s, hello.Hello.Revision)
		slices.Sort(causes)
		slices.Sort(f.causes)
		if !slices.Equal(causes, f.causes) {
			t.Fatalf("step %d (%s): %s receives %q, want %q", step, what, name, causes, f.causes)
		}
		f.rev, f.marker = mark.Revision, mark.Marker
	case f.have.root() != hello.Hello.Root:
		_, mark := f.agent.walk(f.have)
		f.rev, f.marker = mark.Revision, mark.Marker
	default:
		f.rev, f.marker = hello.Hello.Revision, hello.Hello.Marker
	}
	s.close()
	f.causes = nil
	rows, _ := l.r.Table.Members(name)
	for _, row := range rows {
		o, err := key.ParseObject(row.Key)
		if err != nil {
			t.Fatal(err)
		}
		if d, _ := desiredOf(l.r, row, name); d.Held == "" && d.Owner == "" && d.Policy.Release != tr.released(o.Space, tr.objects[row.Key], name) {
			t.Fatalf("step %d (%s): %q of %s is released at %s, etcd says %q", step, what, d.Policy.Release, row.Key, name, tr.released(o.Space, tr.objects[row.Key], name))
		}
	}
	if root, _ := totalOf(l.r, rows, name); f.have.root() != root {
		t.Fatalf("step %d (%s): the agent of %s has %v", step, what, name, slices.Sorted(maps.Keys(f.have)))
	}
}

// say has a location report something of an object, or nothing any more, as its agent might.
func (l *life) say() {
	l.r.t.Helper()
	s, location, name := l.pick("s1", "s2"), key.Location(l.pick("l1", "l2", "l3")), l.pick("c1", "c2", "c3", "c4")
	path, origin := s+"/core/configmaps/default/"+name, key.Origin(l.pick("placed", "placed", "born"))
	switch l.rng.IntN(4) {
	case 0:
	case 1:
		l.r.forgets(location, origin, path)
	default:
		report := wire.Report{UID: "some", State: wire.State(l.pick("Failed", "Removing")), Health: wire.Health(l.pick("", "Degraded"))}
		if origin == key.Upsynced {
			report = upsyncedObject("v1", "ConfigMap", name, `,"data":{"k":"`+l.pick("1", "2")+`"}`)
		}
		l.r.writeReport(location, origin, path, report)
	}
}

// reported is what the locations report of ConfigMaps, by the names of the view over all of
// them, as etcd has it: the data that is there, and the health.
func (l *life) reported() map[string]string {
	l.r.t.Helper()
	tr, out := readTruth(l.r.t, l.r), map[string]string{}
	got, err := l.r.Log.Client().Client.Get(l.r.t.Context(), etcd.Prefix+"r/", clientv3.WithPrefix(), clientv3.WithRev(tr.rev))
	if err != nil {
		l.r.t.Fatal(err)
	}
	for _, kv := range got.Kvs { // placed reports come after upsynced ones and take precedence
		r, err := key.ParseReport(string(kv.Key[len(etcd.Prefix):]))
		var report map[string]any
		if err == nil {
			err = json.Unmarshal(wire.ReportText(kv.Value), &report)
		}
		if err != nil {
			l.r.t.Fatal(err)
		}
		data := dig(report, "health")
		switch cm := tr.objects[r.Object.Key()]; {
		case r.Origin == key.Upsynced:
			out[string(r.Space)+"--default/"+string(r.Location)+"."+r.Name] = fmt.Sprint(dig(report, "object", "data"), data)
			continue
		case cm != nil && tr.assigned(r.Location)[r.Path()]:
			out[string(r.Space)+"--default/"+string(r.Location)+"."+r.Name] = fmt.Sprint(cm["data"], data)
			continue
		}
		out[string(r.Space)+"--default/"+string(r.Location)+"."+r.Name] = fmt.Sprint(nil, data)
	}
	return out
}

// checkReports compares the view of reports, by a list and by a watch that is cut, with what
// etcd says. The hub may still be at work on what went with a space.
func (l *life) checkReports(step int, what string, w *watcher) {
	l.r.t.Helper()
	resource := l.r.reported(key.AllSpaces, key.AllLocations).Resource(configMapsGVR)
	short := func(u *unstructured.Unstructured) string {
		var health any
		if h, ok := u.GetLabels()["orrery.dev/health"]; ok {
			health = h
		}
		return fmt.Sprint(u.Object["data"], health)
	}
	var got map[string]string
	var version string
	l.r.eventually(func() string {
		want := l.reported()
		list, err := resource.List(l.r.t.Context(), metav1.ListOptions{})
		if err != nil {
			l.r.t.Fatal(err)
		}
		got, version = map[string]string{}, list.GetResourceVersion()
		for _, u := range list.Items {
			got[u.GetNamespace()+"/"+u.GetName()] = short(&u)
		}
		if !maps.Equal(got, want) {
			return fmt.Sprintf("step %d (%s): reports are %v, etcd says %v", step, what, got, want)
		}
		return ""
	})
	if w.rv == "" {
		w.rv, w.seen, w.short = version, got, short
		return
	}
	if l.rng.IntN(3) == 0 && !w.follow(l.r.t, resource, got) {
		l.r.t.Fatalf("step %d (%s): a watch of reports saw %v, the list has %v", step, what, w.seen, got)
	}
}
