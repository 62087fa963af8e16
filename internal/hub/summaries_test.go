package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// summarize writes a Summary into the space s.
func (r *running) summarize(name, spec string) {
	r.t.Helper()
	if code, body := (written{"Summary", "summaries"}).write(r.as("admin", "system:masters"), "s", "apply", name, spec); code != http.StatusCreated && code != http.StatusOK {
		r.t.Fatalf("%d %s", code, body)
	}
}

func (r *running) summary(name string) (s v1alpha1.Summary) {
	r.t.Helper()
	u, err := r.space("s").Resource(summariesGVR).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	raw, err := u.MarshalJSON()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// sums waits until a Summary shows rows, how many are counted, stale and failed.
func (r *running) sums(name, rows string, counted, stale, failed int64) (s v1alpha1.Summary) {
	r.t.Helper()
	r.eventually(func() string {
		s = r.summary(name)
		got, err := json.Marshal(s.Status.Rows)
		if err != nil {
			r.t.Fatal(err)
		}
		st := s.Status
		if string(got) != rows || st.Counted != counted || st.Stale != stale || st.Failed != failed || st.ObservedGeneration != s.Generation {
			return fmt.Sprintf("%s has %s, %d counted, %d stale, %d failed at generation %d; want %s %d %d %d", name, got, st.Counted, st.Stale, st.Failed, st.ObservedGeneration, rows, counted, stale, failed)
		}
		return ""
	})
	return s
}

// TestSummaries follows Summaries of placed objects while agents report, objects change,
// locations are relabelled, and the hub is started again.
func TestSummaries(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.summarize("states", `{"match":[{"resources":["configmaps"]}],"groupBy":[{"name":"state","expression":"sync.state"}],"combine":[{"name":"objects","type":"COUNT"}]}`)
	r.summarize("sizes", `{"match":[{"resources":["configmaps"]}],"filter":"sync.applied","combine":[{"name":"sum","type":"SUM","expression":"quantity(status.size)"},{"name":"most","type":"MAX","expression":"status.n"},{"name":"avg","type":"AVG","expression":"status.n"}]}`)
	r.summarize("where", `{"match":[{"names":["one","two"]}],"select":[{"name":"name","expression":"object.metadata.name"},{"name":"site","expression":"location.?properties.?site"}],"limit":1}`)
	r.sums("states", `[["Pending",1]]`, 1, 0, 0)
	s := r.sums("sizes", `[[0,null,null]]`, 0, 0, 0)
	if got := fmt.Sprint(s.Status.Columns); got != "[{sum quantity} {most any} {avg any}]" {
		t.Errorf("columns %s", got)
	}
	for _, c := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionComplete} {
		if !meta.IsStatusConditionTrue(s.Status.Conditions, c) {
			t.Errorf("%s: %+v", c, s.Status.Conditions)
		}
	}
	r.sums("where", `[["one",null]]`, 1, 0, 0)
	r.setProperties("a", `{"site":"north"}`)
	r.sums("where", `[["one","north"]]`, 1, 0, 0)

	a := r.join("a")
	report := func(name, status string) {
		t.Helper()
		u, err := r.space("s").Resource(configMapsGVR).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		a.report(wire.ReportLine{Key: "s/core/configmaps/default/" + name, Report: &wire.Report{
			UID: string(u.GetUID()), Digest: r.digestOf(a, name), State: wire.Applied, Status: json.RawMessage(status),
		}})
	}
	r.addConfigMap("two", map[string]string{"what": "app"}, "2")
	report("one", `{"size":"1Gi","n":1}`)
	report("two", `{"size":"512Mi","n":2}`)
	r.sums("states", `[["Applied",2]]`, 2, 0, 0)
	r.sums("sizes", `[["1536Mi",2,1.5]]`, 2, 0, 0)
	where := r.sums("where", `[["one","north"]]`, 2, 0, 0)
	if !where.Status.Truncated || where.Status.Total != 2 {
		t.Errorf("%+v", where.Status)
	}
	report("two", `{"size":"512Mi","n":"no number"}`)
	s = r.sums("sizes", `[["1Gi",1,1]]`, 1, 0, 1)
	if len(s.Status.Errors) != 1 || s.Status.Errors[0].Location != "a" || !strings.Contains(s.Status.Errors[0].Message, "avg: gives a text; AVG is of numbers") {
		t.Errorf("errors %+v", s.Status.Errors)
	}
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.sums("sizes", `[["1Gi",1,1]]`, 1, 0, 0)

	// A status that a user writes is overwritten.
	if _, err := r.space("s").Resource(summariesGVR).Patch(t.Context(), "states", types.MergePatchType, []byte(`{"status":null}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	before := r.sums("states", `[["Applied",1]]`, 1, 0, 0)

	// A hub that is started again never shows less; then that the location has not come back.
	dir := r.dir
	r.stop()
	again := start(t, dir, func(c *hub.Config) { c.Heartbeat, c.Disconnected = 200*time.Millisecond, time.Second })
	again.sums("states", `[["Applied",1]]`, 1, 1, 0)
	w, err := again.space("s").Resource(summariesGVR).Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.ResourceVersion, FieldSelector: "metadata.name=states"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for stale := int64(0); stale == 0; {
		e := limit.Receive(t, w.ResultChan(), "the Summary is stale")
		seen := e.Object.(*unstructured.Unstructured)
		stale, _ = dig(seen.Object, "status", "stale").(int64)
		if rows := text(dig(seen.Object, "status", "rows")); rows != `[["Applied",1]]` {
			t.Errorf("it has shown %s", rows)
		}
	}
}

// TestSummariesOfReported checks Summaries of upsynced objects, and of dependent objects of placed ones, as their
// reports are stored in the log.
func TestSummariesOfReported(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.relabel("b", "x")
	r.upsyncs("s", `{"apiGroup":"wgpolicyk8s.io","resources":["policyreports"]}`)
	r.associates()
	reports, pods := key.Resource{Group: "wgpolicyk8s.io", Resource: "policyreports"}, key.Resource{Group: key.CoreGroup, Resource: "pods"}
	put := func(l key.Location, origin key.Origin, resource key.Resource, name, object string) {
		t.Helper()
		k := key.Report{Location: l, Origin: origin, Object: key.Object{Space: "s", Identity: key.Identity{Resource: resource, Namespace: "n", Name: name}}}.Key()
		report := wire.Report{State: wire.Present, Since: "2026-01-01T00:00:00Z", Object: json.RawMessage(object)}
		if origin == key.Owned {
			report.Owner = "apps/deployments/default/web"
		}
		value, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		var rev int64
		if row, _ := r.Table.Get(k); row != nil {
			rev = row.ModRev
		}
		if _, ok, err := r.Log.Put(t.Context(), k, value, rev); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	const match = `"match":[{"apiGroup":"wgpolicyk8s.io","resources":["policyreports"]}]`
	r.summarize("results", `{`+match+`,"from":"Upsynced","groupBy":[{"name":"policy","expression":"object.policy"}],
		"combine":[{"name":"pass","type":"SUM","expression":"object.summary.pass"},{"name":"fail","type":"SUM","expression":"object.summary.fail"}]}`)
	r.summarize("owned", `{"match":[{"resources":["pods"]}],"from":"Associated","select":[{"name":"location","expression":"location.name"},{"name":"is","expression":"status.phase"}]}`)
	put("a", key.Upsynced, reports, "x", `{"policy":"p","summary":{"pass":1,"fail":2}}`)
	put("b", key.Upsynced, reports, "x", `{"policy":"p","summary":{"pass":3,"fail":0}}`)
	put("b", key.Upsynced, reports, "y", `{"policy":"q","summary":{"pass":5,"fail":0}}`)
	put("b", key.Owned, pods, "x", `{"status":{"phase":"Running"}}`)
	r.sums("results", `[["p",4,2],["q",5,0]]`, 3, 0, 0)
	r.sums("owned", `[["b","Running"]]`, 1, 0, 0)
	put("a", key.Upsynced, reports, "x", `{"policy":"q","summary":{"pass":1,"fail":2}}`)
	r.sums("results", `[["p",3,0],["q",6,2]]`, 3, 0, 0)
}

// TestSummaryWrites: a Summary is written at most once a second however much changes, and not
// at all when nothing does.
func TestSummaryWrites(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.summarize("n", `{"match":[{"resources":["configmaps"]}],"combine":[{"name":"n","type":"COUNT"}]}`)
	first := r.sums("n", `[[1]]`, 1, 0, 0)
	w, err := r.space("s").Resource(summariesGVR).Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	began := time.Now()
	for i := range 50 {
		r.addConfigMap(fmt.Sprint("more", i), map[string]string{"what": "app"}, "x")
	}
	writes := 0
	for done := false; !done; writes++ {
		e := limit.Receive(t, w.ResultChan(), "the Summary counts all")
		done = text(dig(e.Object.(*unstructured.Unstructured).Object, "status", "rows")) == "[[51]]"
	}
	if most := 2 + int(time.Since(began)/time.Second); writes > most {
		t.Errorf("%d writes in %s", writes, time.Since(began))
	}
	r.throughout(1500*time.Millisecond, func() string {
		select {
		case e := <-w.ResultChan():
			return "it was written again, with nothing new: " + text(e.Object)
		default:
			return ""
		}
	})
}

// TestSummaryTable: a get of a Summary is its table; a list has a line for each.
func TestSummaryTable(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.summarize("states", `{"match":[{"resources":["configmaps"]}],"groupBy":[{"name":"state","expression":"sync.state"},{"name":"extra","expression":"[object.metadata.name]"}],
		"combine":[{"name":"objects","type":"COUNT"},{"name":"avg","type":"AVG","expression":"status.?n"}]}`)
	r.sums("states", `[["Pending",["one"],1,null]]`, 1, 0, 0)
	admin := r.as("admin", "system:masters")
	table := func(path string) (t metav1.Table) {
		r.t.Helper()
		code, body := admin.send("GET "+path, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		if err := json.Unmarshal([]byte(body), &t); err != nil || code != http.StatusOK || t.Kind != "Table" {
			r.t.Fatalf("%d %s %v", code, body, err)
		}
		return t
	}
	columns := func(t metav1.Table) (all string) {
		for _, c := range t.ColumnDefinitions {
			all += c.Name + ":" + c.Type + " "
		}
		return all
	}
	one := table(orreryOf("s", "summaries/states"))
	if got := columns(one); got != "state:string extra:string objects:integer avg:string " || len(one.Rows) != 1 || fmt.Sprint(one.Rows[0].Cells) != `[Pending ["one"] 1 <none>]` ||
		!strings.Contains(string(one.Rows[0].Object.Raw), `"name":"states"`) {
		t.Errorf("columns %s, rows %+v", got, one.Rows)
	}
	all := table(orreryOf("s", "summaries"))
	if got := columns(all); !strings.HasPrefix(got, "Name:string From:string Rows:integer Counted:integer Stale:integer Failed:integer ") || len(all.Rows) != 1 || fmt.Sprint(all.Rows[0].Cells[:6]) != "[states Downsynced 1 1 0 0]" {
		t.Errorf("columns %s, rows %+v", got, all.Rows)
	}
}

// TestSummariesAreChecked: what can't be used is refused at its field.
func TestSummariesAreChecked(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	w, admin := written{"Summary", "summaries"}, r.as("admin", "system:masters")
	const match, count = `"match":[{"resources":["configmaps"]}]`, `"combine":[{"name":"n","type":"COUNT"}]`
	for spec, want := range map[string]string{
		`{` + match + `}`: "give combine or select, and not both",
		`{` + match + `,` + count + `,"select":[{"name":"x","expression":"1"}]}`:                             "give combine or select, and not both",
		`{` + match + `,"groupBy":[{"name":"x","expression":"1"}],"select":[{"name":"y","expression":"1"}]}`: "groupBy needs combine",
		`{` + match + `,"groupBy":[{"name":"n","expression":"1"}],` + count + `}`:                            "each column needs a name of its own",
		`{` + match + `,` + count + `,"filter":"objct.x"}`:                                                   "spec.filter",
		`{` + match + `,` + count + `,"filter":"'x'"}`:                                                       "gives a text, where a boolean belongs",
		`{` + match + `,"combine":[{"name":"n","type":"SUM"}]}`:                                              "only COUNT needs no expression",
		`{` + match + `,"combine":[{"name":"n","type":"SUM","expression":"sync.error"}]}`:                    "spec.combine[0].expression",
		`{"match":[{}],` + count + `}`:                                                                       "an object test needs at least one of",
		`{"match":[{"labelSelectors":[{"matchLabels":{"a b":"c"}}]}],` + count + `}`:                         "spec.match[0].labelSelectors[0]",
		`{` + match + `,` + count + `,"limit":1001}`:                                                         "less than or equal to 1000",
	} {
		if code, body := w.write(admin, "s", "create", "x", spec); code != http.StatusUnprocessableEntity || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %s", spec, code, body, want)
		}
	}
}
