package hub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// upsyncs makes, or changes, the Placement watch of a space, which asks for something at
// locations labelled where=x.
func (r *running) upsyncs(s key.Space, upsync string) {
	r.t.Helper()
	body := `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"watch"},"spec":{"locations":[{"selector":{"matchLabels":{"where":"x"}}}],"upsync":[` + upsync + `]}}`
	if code, response := r.as("admin", "system:masters").send("PATCH "+orreryOf(s, "placements/watch")+"?fieldManager=t&force=true", body, contentType, applyYAML); code >= 300 {
		r.t.Fatalf("%d %s", code, response)
	}
}

// joinWithUpsync returns an agent that supports upsync.
func (r *running) joinWithUpsync(l key.Location) *testAgent {
	r.t.Helper()
	a := r.join(l)
	a.Capabilities = wire.Upsyncs
	return a
}

// until takes frames up to one that fn accepts.
func (s *stream) until(fn func(wire.Frame) bool) (all []wire.Frame) {
	s.t.Helper()
	for {
		f, ok := s.next()
		if !ok {
			s.t.Fatal("the stream ended")
		}
		if all = append(all, f); fn(f) {
			return all
		}
	}
}

// upsyncedLine returns the report line of an upsynced object, by its path in a space.
func upsyncedLine(path string, change ...func(object map[string]any, r *wire.Report)) wire.ReportLine {
	o, err := key.ParsePath(path)
	if err != nil {
		panic(err)
	}
	version := "v1"
	if o.APIGroup() != "" {
		version = o.APIGroup() + "/v1"
	}
	metadata := map[string]any{"name": o.Name, "uid": "uid-of-" + o.Name}
	if o.Namespace != "" {
		metadata["namespace"] = o.Namespace
	}
	object := map[string]any{"apiVersion": version, "kind": "Kind", "metadata": metadata}
	report := &wire.Report{UID: "uid-of-" + o.Name, State: wire.Present}
	for _, c := range change {
		c(object, report)
	}
	if report.Object == nil {
		if report.Object, err = json.Marshal(object); err != nil {
			panic(err)
		}
	}
	return wire.ReportLine{Key: key.Report{Origin: key.Upsynced, Object: o}.Line(), Report: report}
}

// refusesLine sees that a line is refused, for a reason.
func (a *testAgent) refusesLine(line wire.ReportLine, message string) {
	a.r.t.Helper()
	answer := a.report(line)
	if len(answer.Refused) != 1 || !strings.Contains(answer.Refused[0].Message, message) {
		a.r.t.Errorf("%s with %s is answered by %+v, want %q", line.Key, text(line.Report), answer, message)
	}
}

// kept are the reports of what was not placed, as ORIGIN LOCATION PATH, in order.
func (r *running) kept() string {
	r.t.Helper()
	if err := r.WaitCommitted(limit.Context(r.t, "the table is current")); err != nil {
		r.t.Fatal(err)
	}
	var all []string
	r.Table.Snapshot().Ascend(key.Reports.Prefix(), func(row *table.Row) bool {
		if o, err := key.ParseReport(row.Key); err == nil && o.Origin != key.Placed {
			all = append(all, fmt.Sprintf("%s %s %s", o.Origin, o.Location, o.Path()))
		}
		return true
	})
	return strings.Join(all, "\n")
}

func (r *running) eventuallyReports(want ...string) {
	r.t.Helper()
	r.eventually(func() string {
		if got := r.kept(); got != strings.Join(want, "\n") {
			return fmt.Sprintf("kept are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		return ""
	})
}

const widgets = `{"apiGroup":"example.com","resources":["widgets"]}`

// TestUpsyncIsRequested checks that an agent is requested to report objects for spaces before it receives the
// removal of objects that then stay at the location. An agent that does not support it gets no such request,
// and keeps those objects. A restart changes nothing.
func TestUpsyncIsRequested(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addSpace("t")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addLocation("b", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", nil)
	r.addConfigMap("one", map[string]string{"what": "app"}, "1")
	watching, old := r.joinWithUpsync("a"), r.join("b")
	streams := map[*testAgent]*stream{watching: watching.open(0, ""), old: old.open(0, "")}
	for a, s := range streams {
		hello := s.until(func(f wire.Frame) bool { return f.Hello != nil })
		if got := hello[len(hello)-1].Hello.Settings; got.Upsync != nil || got.UpsyncObjects != 0 {
			t.Fatalf("%s is asked for %+v", a.location, got)
		}
	}
	const one = "s/core/configmaps/default/one"
	hold := func(f wire.Frame) bool { return f.Hold != nil && f.Hold.Key == one }
	r.upsyncs("s", widgets+`,{"resources":["configmaps"],"namespaces":["default"]}`)
	want := []wire.Upsync{
		{Space: "s", Group: "core", Resources: []string{"configmaps"}, Namespaces: []string{"default"}},
		{Space: "s", Group: "example.com", Resources: []string{"widgets"}},
	}
	for a, s := range streams {
		requested := false
		for _, f := range s.until(hold) {
			if f.Del != nil {
				t.Errorf("%s receives the removal %+v", a.location, f.Del)
			}
			if f.Settings != nil {
				requested = true
				if got := *f.Settings; a == old || text(got.Upsync) != text(want) || got.UpsyncObjects != 20_000 || got.UpsyncBytes != 64<<20 {
					t.Errorf("%s is asked for %s", a.location, text(got))
				}
			}
			if f.Hold != nil && f.Hold.Reason != v1alpha1.ReasonUpsynced {
				t.Errorf("%s receives %+v", a.location, f.Hold)
			}
		}
		if requested != (a == watching) {
			t.Errorf("%s is asked: %v", a.location, requested)
		}
	}
	r.becomes("b", v1alpha1.ConditionUpsynced, metav1.ConditionFalse, v1alpha1.ReasonAgentTooOld)
	r.becomes("a", v1alpha1.ConditionUpsynced, metav1.ConditionTrue, v1alpha1.ReasonAsked)
	// Not before the location's admission is another: all that is asked for follows it.
	r.patchLocation("a", `{"spec":{"admit":[{"kinds":[{"apiGroup":"example.com"}],"namespaces":["n"]}]}}`)
	frames := streams[watching].until(func(f wire.Frame) bool { return f.Settings != nil })
	if got := frames[len(frames)-1].Settings.Upsync; text(got) != `[{"space":"s","group":"example.com","resources":["widgets"],"namespaces":["n"]}]` {
		t.Errorf("asked for %s", text(got))
	}
	r.upsyncs("t", `{"apiGroup":"*","resources":["widgets"],"names":["w"]}`)
	streams[watching].until(func(f wire.Frame) bool { return f.Settings != nil && len(f.Settings.Upsync) == 2 })
	streams[watching].close()
	s := watching.open(0, "")
	frames = s.until(func(f wire.Frame) bool { return f.Hello != nil })
	if got := frames[len(frames)-1].Hello.Settings.Upsync; len(got) != 2 || got[1].Space != "t" || got[1].Group != "example.com" {
		t.Errorf("another session is asked for %s", text(got))
	}
	// A location that is purged is asked nothing.
	r.patchLocation("a", `{"metadata":{"annotations":{"orrery.dev/purge":"true"}}}`)
	s = watching.open(0, "")
	frames = s.until(func(f wire.Frame) bool { return f.Hello != nil })
	if got := frames[len(frames)-1].Hello.Settings; got.Upsync != nil {
		t.Errorf("a purged location is asked for %s", text(got))
	}
}

// TestUpsyncReports checks which reports of upsynced objects the hub accepts: the requested ones, in exactly the
// form of an object, within the limits of the location. They are removed when no space requests them any more,
// with or without a connected agent. Locations and spaces do not share reports.
func TestUpsyncReports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	r.addSpace("s")
	r.addSpace("t")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addLocation("b", map[string]string{"where": "x"})
	r.upsyncs("s", widgets)
	r.upsyncs("t", `{"apiGroup":"example.com","resources":["widgets"],"namespaces":["n"],"names":["w1"]}`)
	a, b := r.joinWithUpsync("a"), r.joinWithUpsync("b")
	a.open(0, "").until(func(f wire.Frame) bool { return f.Hello != nil })
	w := func(s, name string) string { return s + "/example.com/widgets/n/" + name }
	for _, line := range []wire.ReportLine{
		upsyncedLine(w("s", "w1")), upsyncedLine(w("s", "w2")), upsyncedLine("s/example.com/widgets/global"), upsyncedLine(w("t", "w1")),
		upsyncedLine(w("s", "w3"), func(_ map[string]any, r *wire.Report) { r.Object, r.ObjectBytes = json.RawMessage{}, 5<<20 }),
	} {
		if len(line.Report.Object) == 0 {
			line.Report.Object = nil
		}
		a.reports(line)
	}
	b.reports(upsyncedLine(w("s", "w1")))
	all := []string{
		"born a s/example.com/widgets/global", "born a s/example.com/widgets/n/w1", "born a s/example.com/widgets/n/w2", "born a s/example.com/widgets/n/w3",
		"born a t/example.com/widgets/n/w1", "born b s/example.com/widgets/n/w1",
	}
	r.eventuallyReports(all...)
	a.refusesLine(upsyncedLine(w("t", "w2")), "does not ask")
	a.refusesLine(upsyncedLine("t/example.com/widgets/w1"), "does not ask")
	a.refusesLine(upsyncedLine("s/core/secrets/n/x"), "does not ask")
	a.refusesLine(upsyncedLine("none/example.com/widgets/n/w1"), "does not ask")
	r.hostileObjects(a, w("s", "w9"))
	a.refusesLine(wire.ReportLine{Key: w("s", "w1"), Report: upsyncedLine(w("s", "w1")).Report}, "not assigned")
	r.eventuallyReports(all...)

	// What is no longer asked for goes, though both agents are away, also over a restart.
	a.Close()
	r.stop()
	r = start(t, dir)
	a.r, b.r = r, r
	r.eventuallyReports(all...)
	r.upsyncs("s", `{"apiGroup":"example.com","resources":["widgets"],"names":["w2","w1"]}`)
	r.eventuallyReports(all[1], all[2], all[4], all[5])
	r.patchLocation("b", `{"metadata":{"labels":{"where":"y"}}}`)
	r.eventuallyReports(all[1], all[2], all[4])
	if err := r.space(key.Root).Resource(spacesGVR).Delete(t.Context(), "t", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventuallyReports(all[1], all[2])
	if err := r.space("s").Resource(placementsGVR).Delete(t.Context(), "watch", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventuallyReports()
}

// hostileObjects tries what is no object of its report's key.
func (r *running) hostileObjects(a *testAgent, path string) {
	r.t.Helper()
	metadata := func(field string, v any) func(map[string]any, *wire.Report) {
		return func(o map[string]any, _ *wire.Report) { o["metadata"].(map[string]any)[field] = v }
	}
	field := func(field string, v any) func(map[string]any, *wire.Report) {
		return func(o map[string]any, _ *wire.Report) { o[field] = v }
	}
	report := func(fn func(*wire.Report)) func(map[string]any, *wire.Report) {
		return func(_ map[string]any, r *wire.Report) { fn(r) }
	}
	whole := func(text string) func(map[string]any, *wire.Report) {
		return report(func(r *wire.Report) { r.Object = json.RawMessage(text) })
	}
	for _, c := range []struct {
		change  func(map[string]any, *wire.Report)
		message string
	}{
		{metadata("name", "other"), "another name or namespace"},
		{metadata("namespace", "kube-system"), "another name or namespace"},
		{metadata("uid", "other"), "another UID"},
		{metadata("managedFields", []any{}), "managedFields"},
		{metadata("labels", map[string]any{"a": 1}), "labels and annotations"},
		{field("metadata", "none"), "no metadata"},
		{field("apiVersion", "v1"), "apiVersion"},
		{field("apiVersion", 1), "apiVersion"},
		{field("kind", ""), "no kind"},
		{report(func(r *wire.Report) { r.State = wire.Applied }), "want \"Present\""},
		{report(func(r *wire.Report) { r.UID = "" }), "no UID"},
		{report(func(r *wire.Report) { r.Owner = "apps/deployments/n/x" }), "owner"},
		{report(func(r *wire.Report) { r.Status = json.RawMessage(`{}`) }), "status"},
		{whole(`[]`), "object"},
		{whole(`"x"`), "object"},
		{whole(`{"apiVersion":"example.com/v1","kind":"Kind","metadata":{"name":"w9","namespace":"n","uid":"uid-of-w9"},"metadata":{"name":"x"}}`), "duplicate"},
		{whole(`{"apiVersion":"example.com/v1","kind":"Kind","metadata":{"name":"w9","namespace":"n","uid":"uid-of-w9"},"spec":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`), "nests"},
		{func(o map[string]any, r *wire.Report) {
			o["metadata"].(map[string]any)["labels"] = map[string]any{v1alpha1.LocationLabel: "b.01234567", v1alpha1.SpaceLabel: "s"}
			o["metadata"].(map[string]any)["annotations"] = map[string]any{v1alpha1.SourceKindAnnotation: "Kind", v1alpha1.SourceNameAnnotation: "w9", v1alpha1.SourceNamespaceAnnotation: "n", v1alpha1.SourceUIDAnnotation: "u"}
		}, "placed it"},
	} {
		a.refusesLine(upsyncedLine(path, c.change), c.message)
	}
	a.refusesLine(wire.ReportLine{Key: "~born:" + path}, "neither a report")
	a.refusesLine(wire.ReportLine{Key: "~owned:" + path, Report: upsyncedLine(path).Report}, "does not ask")
}

// TestUpsyncLimits shows that a location's limits hold at the hub, whatever an agent sends, and
// that the Location says so, by what the agent says and by what the hub refuses.
func TestUpsyncLimits(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.upsyncs("s", widgets)
	r.patchLocation("a", `{"spec":{"limits":{"upsyncObjects":2,"upsyncBytes":"2Ki"}}}`)
	a := r.joinWithUpsync("a")
	frames := a.open(0, "").until(func(f wire.Frame) bool { return f.Hello != nil })
	if got := frames[len(frames)-1].Hello.Settings; got.UpsyncObjects != 2 || got.UpsyncBytes != 2<<10 {
		t.Errorf("the agent receives %s", text(got))
	}
	w := func(name string, change ...func(map[string]any, *wire.Report)) wire.ReportLine {
		return upsyncedLine("s/example.com/widgets/n/"+name, change...)
	}
	large := func(o map[string]any, _ *wire.Report) { o["spec"] = strings.Repeat("x", 2<<10) }
	a.refusesLine(w("w1", large), "limits are reached: 2 objects and 2048 bytes")
	r.becomes("a", v1alpha1.ConditionUpsynced, metav1.ConditionFalse, v1alpha1.ReasonLimitExceeded)
	a.reports(w("w1"))
	r.becomes("a", v1alpha1.ConditionUpsynced, metav1.ConditionTrue, v1alpha1.ReasonAsked)
	if answer := a.report(w("w2"), w("w3"), w("w4")); len(answer.Refused) != 2 {
		t.Errorf("of three more the hub refuses %+v", answer)
	}
	l := r.becomes("a", v1alpha1.ConditionUpsynced, metav1.ConditionFalse, v1alpha1.ReasonLimitExceeded)
	if !strings.Contains(text(l.Status.Conditions), "2 objects do not come back: the location's limits are 2 objects and 2048 bytes") {
		t.Errorf("it says %s", text(l.Status.Conditions))
	}
	a.reports(w("w2", func(o map[string]any, _ *wire.Report) { o["data"] = "y" })) // one that is there can change
	if answer := a.report(wire.ReportLine{Key: w("w1").Key, Removed: true}, w("w3")); len(answer.Refused) != 0 {
		t.Errorf("one in the place of another: %+v", answer)
	}
	r.becomes("a", v1alpha1.ConditionUpsynced, metav1.ConditionTrue, v1alpha1.ReasonAsked)
	r.eventuallyReports("born a s/example.com/widgets/n/w2", "born a s/example.com/widgets/n/w3")
	a.tell(wire.AgentStatus{Upsync: &wire.UpsyncStatus{Omitted: 7}})
	l = r.becomes("a", v1alpha1.ConditionUpsynced, metav1.ConditionFalse, v1alpha1.ReasonLimitExceeded)
	if !strings.Contains(text(l.Status.Conditions), "7 objects do not come back") {
		t.Errorf("it says %s", text(l.Status.Conditions))
	}
	a.tell(wire.AgentStatus{Upsync: &wire.UpsyncStatus{Unread: []wire.UnreadKind{{Group: "example.com", Resource: "widgets", Message: "forbidden"}}}})
	r.becomes("a", v1alpha1.ConditionUpsynced, metav1.ConditionFalse, v1alpha1.ReasonUnread)
}

// TestUpsyncLimitsAgainstTheHostile shows that the limits hold for an agent that says in one
// request of one object more than once that it is gone, and for one that sends many requests at once.
func TestUpsyncLimitsAgainstTheHostile(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.upsyncs("s", widgets)
	r.patchLocation("a", `{"spec":{"limits":{"upsyncObjects":2}}}`)
	a := r.joinWithUpsync("a")
	a.open(0, "").until(func(f wire.Frame) bool { return f.Hello != nil })
	w := func(name string) wire.ReportLine { return upsyncedLine("s/example.com/widgets/n/" + name) }
	gone := func(name string) wire.ReportLine { return wire.ReportLine{Key: w(name).Key, Removed: true} }
	count := func() int { return len(strings.Fields(r.kept())) / 3 }

	a.reports(w("w1"))
	a.reports(w("w2"))
	a.report(gone("w1"), gone("w1"), gone("w1"), gone("none"), w("w1"), w("w3"), w("w4"), w("w5"))
	if n := count(); n > 2 {
		t.Errorf("with removed objects there are %d", n)
	}
	a.report(gone("w1"), gone("w2"), gone("w3"), gone("w4"), gone("w5"))
	if n := count(); n != 0 {
		t.Fatalf("%d are left", n)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, _ = a.now().Report(t.Context(), w(fmt.Sprintf("p%d", 2*i)), w(fmt.Sprintf("p%d", 2*i+1))) // some may be refused
		})
	}
	all.Wait()
	if n := count(); n > 2 {
		t.Errorf("with many requests at once there are %d", n)
	}
}

// TestOwnedReports shows that what belongs to a placed object is taken as its Placements say,
// and goes with its assignment.
func TestOwnedReports(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addConfigMap("one", map[string]string{"what": "app"}, "1")
	placement := func(associated string) {
		body := `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"p"},"spec":{"locations":[{"selector":{}}],"downsync":[{"resources":["configmaps"]` + associated + `}]}}`
		if code, response := r.as("admin", "system:masters").send("PATCH "+orreryOf("s", "placements/p")+"?fieldManager=t&force=true", body, contentType, applyYAML); code >= 300 {
			t.Fatalf("%d %s", code, response)
		}
	}
	placement(`,"associated":[{"resources":["pods"]},{"apiGroup":"apps","resources":["replicasets"]}]`)
	a := r.joinWithUpsync("a")
	unknowing := *a.Client
	unknowing.Capabilities = ""
	old := &testAgent{Client: &unknowing, r: r, location: "a"}
	for _, agent := range []*testAgent{a, old} {
		s := agent.open(0, "")
		have := holding{}
		agent.walk(have)
		frames := agent.fetch(wire.Fetch{Key: "s/core/configmaps/default/one"})
		if len(frames) == 0 || frames[0].Put == nil {
			t.Fatalf("%+v", frames)
		}
		want := "apps/replicasets\ncore/pods"
		if agent == old {
			want = ""
		}
		if got := frames[0].Put.Policy.Associated; got != want {
			t.Errorf("it is asked for %q", got)
		}
		s.close()
	}
	const pod, one = "s/core/pods/default/one-x", "core/configmaps/default/one"
	owned := func(path, owner string) wire.ReportLine {
		line := upsyncedLine(path, func(_ map[string]any, r *wire.Report) { r.Owner = owner })
		line.Key = strings.Replace(line.Key, "~born:", "~owned:", 1)
		return line
	}
	a.reports(owned(pod, one))
	huge := owned(pod, one)
	huge.Report.Object = json.RawMessage(strings.Replace(string(huge.Report.Object), "{", `{"spec":{"resources":{"requests":{"memory":"1e-2000000000"}}},`, 1))
	a.refusesLine(huge, "more digits")
	a.reports(owned("s/apps/replicasets/default/one-y", one))
	for _, line := range []wire.ReportLine{
		owned("s/core/secrets/default/one-x", one), owned(pod, "core/configmaps/default/two"), owned(pod, "core/configmaps/one"), owned(pod, "x"), owned(pod, ""),
	} {
		a.refusesLine(line, "does not ask")
	}
	a.refusesLine(upsyncedLine(pod), "does not ask")
	all := []string{"owned a s/apps/replicasets/default/one-y", "owned a s/core/pods/default/one-x"}
	r.eventuallyReports(all...)
	placement(`,"associated":[{"resources":["pods"]}]`)
	r.eventuallyReports(all[1])
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventuallyReports()
}

// TestUpsyncAlone checks that a Placement with upsync alone is Synced and Ready once the agents of all its locations
// have a session and report all requested objects, and no longer when one of them does not.
func TestUpsyncAlone(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addLocation("b", map[string]string{"where": "x"})
	r.upsyncs("s", widgets)
	becomes := func(status metav1.ConditionStatus, reason string, ready metav1.ConditionStatus) {
		t.Helper()
		r.eventually(func() string {
			u, err := r.space("s").Resource(placementsGVR).Get(t.Context(), "watch", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			var p v1alpha1.Placement
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
				return err.Error()
			}
			synced, is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSynced), meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
			if synced == nil || synced.Status != status || synced.Reason != reason || is == nil || is.Status != ready {
				return fmt.Sprintf("want %s %s, ready %s: %s", status, reason, ready, text(p.Status))
			}
			return ""
		})
	}
	becomes(metav1.ConditionFalse, "Progressing", metav1.ConditionFalse)
	a, b := r.joinWithUpsync("a"), r.joinWithUpsync("b")
	a.open(0, "").until(func(f wire.Frame) bool { return f.Hello != nil })
	becomes(metav1.ConditionFalse, "Progressing", metav1.ConditionFalse)
	b.open(0, "").until(func(f wire.Frame) bool { return f.Hello != nil })
	becomes(metav1.ConditionTrue, v1alpha1.ReasonAsked, metav1.ConditionTrue)
	b.tell(wire.AgentStatus{Upsync: &wire.UpsyncStatus{Omitted: 1}})
	becomes(metav1.ConditionUnknown, v1alpha1.ReasonNotReported, metav1.ConditionUnknown)
	b.tell(wire.AgentStatus{})
	becomes(metav1.ConditionTrue, v1alpha1.ReasonAsked, metav1.ConditionTrue)
	b.tell(wire.AgentStatus{Cluster: &wire.ClusterStatus{State: wire.ClusterUnavailable}})
	becomes(metav1.ConditionUnknown, v1alpha1.ReasonStale, metav1.ConditionUnknown)
	r.patchLocation("b", `{"metadata":{"labels":{"where":"y"}}}`)
	becomes(metav1.ConditionTrue, v1alpha1.ReasonAsked, metav1.ConditionTrue)
	r.patchLocation("a", `{"spec":{"admit":[{"kinds":[{"apiGroup":"example.org"}]}]}}`)
	becomes(metav1.ConditionFalse, v1alpha1.ReasonNotAdmitted, metav1.ConditionFalse)
	r.patchLocation("a", `{"metadata":{"labels":{"where":"y"}}}`)
	becomes(metav1.ConditionFalse, v1alpha1.ReasonNoLocations, metav1.ConditionFalse)
}
