package read

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// TestViewsEqualTheirModel: lists equal recomputation at every revision, page
// by page too, and watches tell the difference between any two revisions,
// however slowly they are read and wherever they are cut and resumed.
func TestViewsEqualTheirModel(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		f := newFixture(t, withExportViews)
		defer f.server.Close()
		m := newModel()
		there := key.Location("l1").Key()
		row := []byte(`{"metadata":{"name":"l1","uid":"0a1b2c3d-4e5f"}}`)
		m.states = append(m.states, maps.Clone(m.states[0]))
		m.states[1][there] = written{row, f.apply(table.Update{Key: there, Value: row})}
		var followers []*follower
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			step(t, f, m)
			switch rapid.IntRange(0, 5).Draw(t, "then") {
			case 0:
				checkList(t, f, m)
			case 1:
				checkPages(t, f, m)
			case 2:
				followers = append(followers, follow(t, f, genAngle(t, "watched"), int64(rapid.IntRange(1, int(m.rev())).Draw(t, "from"))))
			case 3:
				if len(followers) > 0 {
					cutSomewhere(t, f, m, followers[rapid.IntRange(0, len(followers)-1).Draw(t, "cut")])
				}
			}
		}
		for _, w := range followers {
			drain(t, m, w)
			w.watch.Stop()
		}
	})
}

func checkList(t *rapid.T, f *fixture, m *model) {
	a := genAngle(t, "listed")
	version, match := "", metav1.ResourceVersionMatch("")
	rev := m.rev()
	if rapid.Bool().Draw(t, "exact") {
		rev = int64(rapid.IntRange(1, int(rev)).Draw(t, "at"))
		version, match = fmt.Sprint(rev), metav1.ResourceVersionMatchExact
	}
	ctx, opts := a.options(version)
	opts.ResourceVersionMatch = match
	result, err := f.reader(a.lens, a.gvr).List(ctx, opts)
	if err != nil {
		t.Fatalf("%s: list at %d: %v", a, rev, err)
	}
	l := result.(*list)
	compareItems(t, m, a, rev, l.ResourceVersion, l.Items)
	sameProtobuf(t, l)
}

// checkPages reads a list in pages while the log goes on.
func checkPages(t *rapid.T, f *fixture, m *model) {
	a, rev := genAngle(t, "paged"), m.rev()
	var items []*object
	ctx, opts := a.options("")
	opts.Limit = int64(rapid.IntRange(1, 4).Draw(t, "limit"))
	for {
		result, err := f.reader(a.lens, a.gvr).List(ctx, opts)
		if err != nil {
			t.Fatalf("%s: page at %d: %v", a, rev, err)
		}
		l := result.(*list)
		items = append(items, l.Items...)
		total := len(m.visible(rev, a))
		if l.RemainingItemCount != nil && int(*l.RemainingItemCount) != total-len(items) {
			t.Fatalf("%s: %d of %d items, %d remain", a, len(items), total, *l.RemainingItemCount)
		}
		if opts.Continue = l.Continue; l.Continue == "" {
			compareItems(t, m, a, rev, l.ResourceVersion, items)
			return
		}
		step(t, f, m)
		if rapid.Bool().Draw(t, "forget") {
			f.server.pages.kept = nil // as after a restart: the window knows, too
		}
	}
}

func compareItems(t *rapid.T, m *model, a angle, rev int64, version string, items []*object) {
	want := m.visible(rev, a)
	if version != fmt.Sprint(rev) || len(items) != len(want) {
		t.Fatalf("%s: %d items at %s, want %d at %d", a, len(items), version, len(want), rev)
	}
	last := ""
	for _, o := range items {
		place, plain, shownRev := shown(t, o)
		if place <= last {
			t.Fatalf("%s: %q behind %q", a, place, last)
		}
		last = place
		w, ok := want[shortPlace(a.lens, place)]
		if !ok {
			t.Fatalf("%s: %q is not to be listed", a, place)
		}
		wantRev := w.rev
		switch a.lens.(type) {
		case locationLens, reportsLens:
			wantRev = rev
		}
		if shownRev != wantRev || !sameJSON(plain, w.object) {
			t.Fatalf("%s: %q at %d is %s, want %s at %d", a, place, shownRev, plain, w.object, wantRev)
		}
	}
}

// shortPlace is a place as the model says it: without the resource.
func shortPlace(l Lens, place string) string {
	if _, everywhere := l.(allSpacesLens); everywhere {
		segments := strings.SplitN(place, "/", 4)
		return segments[0] + "/" + segments[3]
	}
	return place
}

// TestWatchLeftByTheWindow: a watch that is too slow ends, and never misses an
// event in silence.
func TestWatchLeftByTheWindow(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		f := newFixture(t, func(_ *Config, tc *table.Config) { tc.WindowSteps = 5 })
		defer f.server.Close()
		m := newModel()
		step(t, f, m)
		a := angle{lens: Space("a"), gvr: configMaps}
		w := follow(t, f, a, 1)
		for range rapid.IntRange(30, 60).Draw(t, "steps") {
			step(t, f, m)
		}
		for _, want := range m.between(1, m.rev(), a) {
			got, ok, err := w.read(t)
			if err != nil && !apierrors.IsResourceExpired(err) {
				t.Fatalf("ended with %v", err)
			}
			if !ok {
				return
			}
			compareEvent(t, w, got, want)
		}
	})
}
