package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// watchTest runs the watches of a controller on a table, inside a synctest bubble.
type watchTest struct {
	t     *testing.T
	table *table.Writer
	rev   int64
	// open is closed while the watches may enqueue keys.
	open     chan struct{}
	enqueued chan string
}

const (
	// watchWindow is the number of revisions in the windows of the table, and missedSteps a number
	// that exceeds it and the queue of a subscription.
	watchWindow = 10
	missedSteps = 4 * watchWindow
)

func newWatchTest(t *testing.T) *watchTest {
	w := &watchTest{t: t, open: make(chan struct{}), enqueued: make(chan string, 1000)}
	w.table = table.New(table.Config{WindowSteps: watchWindow, WindowBytes: 1 << 20})
	close(w.open)
	return w
}

// apply writes a row; an empty value deletes it.
func (w *watchTest) apply(k, value string) {
	w.rev++
	update := table.Update{Key: k, CreateRev: w.rev, ModRev: w.rev}
	if value != "" {
		update.Value = []byte(value)
	}
	if err := w.table.Apply(w.rev, []table.Update{update}); err != nil {
		w.t.Fatal(err)
	}
}

// take returns the keys that the watches have enqueued since the last call, sorted.
func (w *watchTest) take() (keys []string) {
	synctest.Wait()
	for len(w.enqueued) > 0 {
		keys = append(keys, <-w.enqueued)
	}
	slices.Sort(keys)
	return keys
}

func (w *watchTest) run(watches []watch) {
	for _, watch := range watches {
		go func() {
			_ = watch(w.t.Context(), func(keys []string) {
				<-w.open
				for _, k := range keys {
					w.enqueued <- k
				}
			})
		}()
	}
}

// watchesOf returns the watches of a controller.
func watchesOf(t *testing.T, config Config, name string) []watch {
	config.Spaces = &write.Server{} // nothing is reconciled
	for _, one := range list(config, newCounter(counterConfig{})) {
		if one.name == name {
			return one.controller.watches()
		}
	}
	t.Fatalf("no controller %q", name)
	return nil
}

func rootKey(r key.Resource, name string) string {
	return key.Object{Space: key.Root, Identity: key.Identity{Resource: r, Name: name}}.Key()
}

// TestWatches shows that a controller enqueues each object once when it starts, and enqueues the
// object that a change concerns even if it has missed that change.
func TestWatches(t *testing.T) {
	configMaps := key.NewResource("", "configmaps")
	object := key.Object{Space: "s", Identity: key.Identity{Resource: configMaps, Namespace: "n", Name: "a"}}
	report := func(origin key.Origin, name string) string {
		o := object
		o.Name = name
		return key.Report{Location: "l", Origin: origin, Object: o}.Key()
	}
	removed := fmt.Sprintf(`{"state":%q}`, wire.Removed)
	space := `{"metadata":{"name":"s","uid":"u"}}`
	for _, c := range []struct {
		controller string
		rows       map[string]string
		// first are the keys that the watches enqueue when they start.
		first []string
		// busy returns the key of a row whose creation concerns no object.
		busy func(i int) string
		// missedKey is the row that changes to missed, or is deleted, while a watch falls behind,
		// and concerned are the keys that this concerns.
		missedKey, missed string
		concerned         []string
	}{
		{
			"names", map[string]string{rootKey(key.CRDs, "a"): `{}`, rootKey(key.APIBindings, "b"): `{}`}, []string{"root"},
			func(i int) string { return rootKey(key.APIBindings, fmt.Sprint("c", i)) },
			rootKey(key.APIBindings, "b"), "", []string{"root"},
		},
		{
			"apiexports", map[string]string{rootKey(key.APIExports, "a"): `{}`, rootKey(key.CRDs, "b"): `{}`},
			[]string{rootKey(key.APIExports, "a")},
			func(i int) string { return rootKey(key.APIBindings, fmt.Sprint("c", i)) },
			rootKey(key.CRDs, "b"), "", []string{rootKey(key.APIExports, "a")},
		},
		{
			"apiexportviews", map[string]string{rootKey(key.APIExportViews, "a"): `{"spec":{"export":"b"}}`, rootKey(key.APIExports, "b"): `{}`},
			[]string{rootKey(key.APIExportViews, "a")},
			func(i int) string { return rootKey(key.APIExports, fmt.Sprint("c", i)) },
			rootKey(key.APIExports, "b"), "", []string{rootKey(key.APIExportViews, "a")},
		},
		{
			"apibindings", map[string]string{rootKey(key.APIBindings, "a"): `{}`, rootKey(key.APIBindings, "b"): `{}`},
			[]string{rootKey(key.APIBindings, "a"), rootKey(key.APIBindings, "b")},
			nil, rootKey(key.APIBindings, "b"), "", []string{rootKey(key.APIBindings, "a")},
		},
		{
			"removals", map[string]string{
				object.Key(): fmt.Sprintf(`{"metadata":{"deletionTimestamp":"2026-11-30T00:00:00Z","finalizers":[%q]}}`, v1alpha1.RemovalFinalizer), report(key.Placed, "a"): `{}`,
			},
			[]string{object.Key()},
			func(i int) string { return report(key.Placed, fmt.Sprint("c", i)) },
			report(key.Placed, "a"), removed, []string{object.Key()},
		},
		{
			"tokens", map[string]string{key.Token("a"): `{"scope":{"space":"s","uid":"u"}}`, key.Space("s").Key(): space}, []string{"a"},
			func(i int) string { return rootKey(key.Spaces, fmt.Sprint("c", i)) },
			key.Space("s").Key(), "", []string{"a"},
		},
		{
			"born", map[string]string{key.Location("l").Key(): `{}`}, []string{"l"},
			func(i int) string { return report(key.Placed, fmt.Sprint("c", i)) },
			report(key.Upsynced, "a"), `{}`, []string{"l"},
		},
		{
			"locations", map[string]string{key.Enrolment("l"): `{}`}, []string{"l"},
			nil, key.Enrolment("l"), `{"a":1}`, []string{"l"},
		},
	} {
		t.Run(c.controller, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatchTest(t)
				for _, k := range slices.Sorted(maps.Keys(c.rows)) {
					w.apply(k, c.rows[k])
				}
				w.run(watchesOf(t, Config{Table: w.table.Table, Now: time.Now, ChangedViews: NewChangedExportViews(), Upsynced: upsync.NewUsage()}, c.controller))
				if got := w.take(); !slices.Equal(got, c.first) {
					t.Errorf("at the start, it enqueues %v, want %v", got, c.first)
				}
				if c.busy != nil {
					w.open = make(chan struct{})
					w.apply(c.busy(0), `{}`)
					synctest.Wait() // the watch of these rows does not go on
				}
				w.apply(c.missedKey, c.missed)
				if c.busy != nil {
					for i := range missedSteps {
						w.apply(c.busy(i+1), `{}`)
					}
					close(w.open)
				}
				<-time.After(2 * relistMost)
				for _, k := range c.concerned {
					if got := w.take(); !slices.Contains(got, k) {
						t.Errorf("after a change of %s, it enqueues %v, want %s", c.missedKey, got, k)
					}
				}
			})
		})
	}
}

// TestRelisting: a watch that cannot keep up lists all rows again after a pause that grows up to a limit. It ends
// with its context, also while it lists.
func TestRelisting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchTest(t)
		const rows = 1000
		for i := range rows {
			w.apply(rootKey(key.CRDs, fmt.Sprint("a", i)), `{}`)
		}
		ctx, cancel := context.WithCancel(t.Context())
		lists, enqueued := 0, 0
		stuck := follow(w.table.Table, source{
			topics: resourceTopics(key.CRDs), rows: func(s *table.Snapshot, fn func(*table.Row) bool) {
				lists++
				below(key.ResourcePrefix(key.Root, key.CRDs))(s, fn)
			},
			names: func(ch table.Change) []string {
				if ch.Row().Key == rootKey(key.CRDs, "a0") {
					for range missedSteps { // the subscription falls behind before it begins
						w.apply(rootKey(key.CRDs, "b"), `{}`)
					}
				}
				return nil
			},
		})
		go func() { _ = stuck(ctx, func([]string) { enqueued++ }) }()
		<-time.After(10 * relistMost)
		cancel()
		synctest.Wait()
		if lists < 10 || lists > 25 {
			t.Errorf("in %s all rows were listed %d times", 10*relistMost, lists)
		}
		ctx, cancel = context.WithCancel(t.Context())
		enqueued = 0
		quiet := follow(w.table.Table, source{resourceTopics(key.CRDs), below(key.ResourcePrefix(key.Root, key.CRDs)), byKey})
		err := quiet(ctx, func([]string) {
			enqueued++
			cancel()
		})
		if !errors.Is(err, context.Canceled) || enqueued > 1 {
			t.Errorf("after its context had ended a watch enqueued %d times more, and returned %v", enqueued-1, err)
		}
	})
}

// TestKeysOfNoWatch: keys are kept while a watch takes them, and at no other time. The next watch learns that there
// were some.
func TestKeysOfNoWatch(t *testing.T) {
	s := newKeySet[string]()
	if s.open() {
		t.Error("before the first key was added, some were missed")
	}
	s.close()
	for i := range 1000 {
		s.add([]string{fmt.Sprint(i)})
	}
	if len(s.all) > 0 {
		t.Errorf("%d keys are kept for no watch", len(s.all))
	}
	if !s.open() {
		t.Error("keys that were added before are not missed")
	}
	s.add([]string{"a", "a", "b"})
	if got := s.take(); len(got) != 2 {
		t.Errorf("%v were taken", got)
	}
	s.close()
	if !s.open() {
		t.Error("keys that were taken by a watch which ended are not missed")
	}
	s.close()
	if s.open() {
		t.Error("without keys, some are missed")
	}
}

// TestKeysBeforeTheirWatchRuns: the watches of a controller start concurrently. A key that one of them causes before
// another runs, which takes such keys, is enqueued.
func TestKeysBeforeTheirWatchRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchTest(t)
		config := Config{Table: w.table.Table, Now: time.Now, ChangedViews: NewChangedExportViews()}
		bindings := newBindingController(bindingConfig{Table: w.table.Table, Now: time.Now})
		watches := slices.Concat(bindings.watches(), watchesOf(t, config, "apiexportviews"))
		view := key.ExportView{Space: "s", Name: "v", View: true}
		bindings.bound.add([]string{"a"})
		config.ChangedViews.views.add([]key.ExportView{view})
		w.run(watches)
		if got, want := w.take(), []string{"a", view.Key()}; !slices.Equal(got, want) {
			t.Errorf("enqueued are %v, want %v", got, want)
		}
	})
}
