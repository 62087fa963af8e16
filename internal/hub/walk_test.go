package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/judge"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// exchange posts lines and returns the frames of the answer, which must end with a mark.
func (a *agent) exchange(path string, lines ...any) []wire.Frame {
	a.r.t.Helper()
	var body strings.Builder
	for _, line := range lines {
		if err := json.NewEncoder(&body).Encode(line); err != nil {
			a.r.t.Fatal(err)
		}
	}
	resp := a.do(a.r.t.Context(), http.MethodPost, string(a.location)+"/"+path, strings.NewReader(body.String()))
	defer func() { _ = resp.Body.Close() }()
	decoder := json.NewDecoder(resp.Body)
	var frames []wire.Frame
	for {
		var f wire.Frame
		if err := decoder.Decode(&f); err != nil {
			a.r.t.Fatalf("%s: %s: %v", path, resp.Status, err)
		}
		frames = append(frames, f)
		if f.Mark != nil {
			return frames
		}
	}
}

// walk makes a holding equal to the hub's, and returns how many pages it took and
// the revision to go on from.
func (a *agent) walk(have holding) (pages int, from wire.Mark) {
	a.r.t.Helper()
	var leaves []wire.Leaf
	for _, k := range sortedKeys(have) {
		leaves = append(leaves, wire.Leaf{Key: k, Sum: have[k]})
	}
	mine, err := wire.NewIndex(leaves)
	if err != nil {
		a.r.t.Fatal(err)
	}
	ask, at, fetch := []wire.Span{mine.Span("", "")}, int64(0), []any(nil)
	for len(ask) > 0 {
		lines := []any{wire.Walk{At: at}}
		for _, s := range ask[:min(len(ask), wire.MaxSpans)] {
			lines = append(lines, s)
		}
		ask = ask[min(len(ask), wire.MaxSpans):]
		frames := a.exchange("walk", lines...)
		pages++
		if rev := frames[0].Hello.Revision; at != 0 && rev != at {
			a.r.t.Fatalf("page %d is of revision %d, the first was of %d", pages, rev, at)
		}
		at = frames[0].Hello.Revision
		from = *frames[len(frames)-1].Mark
		for _, f := range frames {
			if f.Part == nil {
				continue
			}
			d := mine.Compare(*f.Part)
			ask = append(ask, d.Ask...)
			for _, k := range d.Mine {
				delete(have, k)
			}
			for _, k := range d.Theirs {
				fetch = append(fetch, wire.Fetch{Key: k})
			}
		}
	}
	if len(fetch) > 0 {
		for _, f := range a.exchange("fetch", fetch...) {
			have.apply(f)
		}
	}
	return pages, from
}

func TestWalk(t *testing.T) {
	r := fixture(t)
	a := r.join("a")
	for i := range 300 {
		r.addConfigMap(fmt.Sprintf("n%03d", i), map[string]string{"what": "app"}, "v")
	}
	have := holding{}
	a.walk(have)
	same := func() {
		t.Helper()
		rows, _ := r.table.Members("a")
		if root, count := totalOf(r, rows, "a"); have.root() != root || len(have) != count {
			t.Fatalf("the agent has %d objects, the hub %d", len(have), count)
		}
	}
	same()
	if pages, _ := a.walk(have); pages != 1 {
		t.Errorf("a walk in sync took %d pages", pages)
	}
	configMaps := r.space("s").Resource(configMapsGVR).Namespace("default")
	if err := configMaps.Delete(t.Context(), "n007", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.addConfigMap("n999", map[string]string{"what": "app"}, "v")
	have["s/core/configmaps/default/ghost"] = wire.SumOf([]byte("ghost"))
	have["s/core/configmaps/default/n100"] = wire.SumOf([]byte("other"))
	a.walk(have)
	same()
}

// TestFetchSaysWhatIsGone shows that every key gets an answer.
func TestFetchSaysWhatIsGone(t *testing.T) {
	r := fixture(t)
	frames := r.join("a").exchange("fetch", wire.Fetch{Key: "s/core/configmaps/default/one"}, wire.Fetch{Key: "s/core/configmaps/default/none"}, wire.Fetch{Key: "../../e/a"})
	if len(frames) != 4 || frames[0].Put == nil || frames[1].Del == nil || frames[2].Del == nil {
		t.Fatalf("answered %+v", frames)
	}
}

// TestReportsWalkAndFetch shows that a walk of the reports compares what the log
// has, and that every key of a fetch gets an answer.
func TestReportsWalkAndFetch(t *testing.T) {
	r := fixture(t)
	a := r.join("a")
	report := wire.Report{UID: "1", State: wire.Applied, Status: json.RawMessage(`{"a":"<b>"}`)}
	var body strings.Builder
	encoder := wire.NewEncoder(&body)
	var leaves []wire.Leaf
	for i := range 300 {
		r.addConfigMap(fmt.Sprintf("n%03d", i), map[string]string{"what": "app"}, "v")
		k := fmt.Sprintf("s/core/configmaps/default/n%03d", i)
		leaves = append(leaves, wire.Leaf{Key: k, Sum: report.Sum()})
		if err := encoder.Encode(wire.ReportLine{Key: k, Report: &report}); err != nil {
			t.Fatal(err)
		}
	}
	resp := a.do(t.Context(), http.MethodPost, "a/reports", strings.NewReader(body.String()))
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	mine, err := wire.NewIndex(leaves)
	if err != nil {
		t.Fatal(err)
	}
	if frames := a.exchange("reports/walk", wire.Walk{}, mine.Span("", "")); len(frames) != 2 {
		t.Errorf("a walk in sync got %+v", frames)
	}
	frames := a.exchange("reports/walk", wire.Walk{}, wire.Span{})
	if len(frames) != 3 || len(frames[1].Part.Split) == 0 {
		t.Fatalf("an agent that has none got %+v", frames)
	}
	if d := mine.Compare(*frames[1].Part); len(d.Ask) > 0 || len(d.Mine) > 0 || len(d.Theirs) > 0 {
		t.Errorf("the same reports differ: %+v", d)
	}
	resp = a.do(t.Context(), http.MethodPost, "a/reports/fetch", strings.NewReader(lineOf(leaves[7].Key)+lineOf("s/core/configmaps/default/none")+lineOf("../../e/a")))
	defer func() { _ = resp.Body.Close() }()
	lines := make([]wire.ReportLine, 3)
	decoder, err := json.NewDecoder(resp.Body), error(nil)
	for i := range lines {
		err = errors.Join(err, decoder.Decode(&lines[i]))
	}
	if err != nil || decoder.More() || lines[0].Report == nil || lines[0].Report.Sum() != report.Sum() || !lines[1].Removed || !lines[2].Removed {
		t.Errorf("fetched %+v: %v", lines, err)
	}
}

func lineOf(k string) string { return fmt.Sprintf("{\"key\":%q}\n", k) }

// totalOf recounts what a location is to have.
func totalOf(r *running, rows []*table.Row, l key.Location) (root wire.Sum, count int) {
	for _, row := range rows {
		d, ok := desiredOf(r, row, l)
		switch {
		case !ok:
			continue
		case d.Owner != "":
			d.Policy, d.Digest = wire.Policy{}, wire.SumOf([]byte("conflict:"+d.Owner))
		case d.Held != "":
			d.Policy, d.Digest = wire.Policy{}, wire.SumOf([]byte("hold:"+d.Held))
		}
		path, _ := key.PathOf(row.Key)
		root, count = root.Add(wire.LeafSum(path, row.Meta.UID, d.Digest, d.Policy)), count+1
	}
	return root, count
}

func desiredOf(r *running, row *table.Row, l key.Location) (judge.Desired, bool) {
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return judge.Desired{}, false
	}
	p, ok := m.Place(string(l))
	if !ok {
		return judge.Desired{}, false
	}
	return judge.DesiredOf(r.renderer.Digest, row, p), true
}
