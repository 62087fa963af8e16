package worklist

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestHomeless shows that of many items that wait for a Namespace one retries. All have a turn when its wait ends, or
// when the Namespace arrives. If the scout leaves, another one takes its place.
func TestHomeless(t *testing.T) {
	const count, retry = 1000, 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		e := New()
		defer e.Stop()
		item := func(resource key.Resource, name string) key.Object {
			id := key.Identity{Resource: resource, Name: name}
			if resource != key.Namespaces {
				id.Namespace = "a"
			}
			return key.Object{Space: "s", Identity: id}
		}
		touch := func(w *store.Want, objects ...key.Object) {
			var all []store.Touched
			for _, o := range objects {
				all = append(all, store.Touched{Object: o, Want: w})
			}
			e.Touch(all)
		}
		var objects []key.Object
		for i := range count {
			objects = append(objects, item(key.ConfigMaps, fmt.Sprint(i)))
		}
		result, attempts := Result{Wanted: true, State: wire.Waiting, Retry: retry, Homeless: true}, 0
		var last *Item
		work := func(d time.Duration) int {
			attempts = 0
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			for {
				it, ok := e.Next(ctx)
				if !ok {
					return attempts
				}
				attempts++
				switch r := result; {
				case it.Identity().Resource == key.Namespaces:
					e.Finish(it, Result{Wanted: true, State: wire.Failed})
				case !it.wanted:
					e.Finish(it, Result{Forget: true, Gone: []key.Space{"s"}})
				default:
					last = it
					e.Finish(it, r)
				}
			}
		}
		touch(putWant(), objects...)
		if n := work(time.Second); n != count {
			t.Fatalf("%d turns at first", n)
		}
		if n := work(time.Minute); n < 11 || n > 13 {
			t.Errorf("%d turns in a minute", n)
		}
		scout := last
		touch(nil, key.Object{Space: "s", Identity: scout.Identity()})
		if n := work(time.Minute); n < 12 || n > 15 || last == scout {
			t.Errorf("%d turns in a minute after the scout has left", n)
		}
		namespace := item(key.Namespaces, "a")
		touch(putWant(), namespace)
		if n := work(time.Second); n != 1+count-1 {
			t.Errorf("%d turns after the first turn of the Namespace", n)
		}
		touch(putWant(), namespace)
		if n := work(time.Second); n != 2 {
			t.Errorf("%d turns after a further turn of the Namespace, which is missing", n)
		}
		e.items[namespace.Identity.String()].seen.existence = decide.Present
		touch(putWant(), namespace)
		result = Result{Wanted: true, State: wire.Applied}
		if n := work(time.Second); n != 1+count-1 {
			t.Errorf("%d turns after the Namespace has arrived", n)
		}
		if len(e.homeless) > 0 || work(time.Hour) > 0 {
			t.Errorf("%d Namespaces are waited for, and %d turns were given", len(e.homeless), attempts)
		}
		e.items[namespace.Identity.String()].seen.existence = decide.Absent
		result = Result{Wanted: true, State: wire.Waiting, Retry: retry, Homeless: true}
		touch(putWant(), objects[:10]...)
		work(time.Second)
		result = Result{Wanted: true, State: wire.Applied}
		if n := work(retry); n != 10 {
			t.Errorf("%d turns after the scout has found the Namespace", n)
		}
	})
}

// TestHomelessOfUntriedNamespace shows that a turn of a Namespace without a result, such as one during an outage of the
// cluster, wakes one of the items that wait for the first result, and the result wakes all.
func TestHomelessOfUntriedNamespace(t *testing.T) {
	const count, retries = 1000, 5
	synctest.Test(t, func(t *testing.T) {
		e := New()
		defer e.Stop()
		namespace := key.Object{Space: "s", Identity: key.Identity{Resource: key.Namespaces, Name: "a"}}
		var all []store.Touched
		for i := range count {
			id := key.Identity{Resource: key.ConfigMaps, Namespace: "a", Name: fmt.Sprint(i)}
			all = append(all, store.Touched{Object: key.Object{Space: "s", Identity: id}, Want: putWant()})
		}
		state, tries := wire.State(""), 0
		work := func(d time.Duration) (attempts int) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			for {
				it, ok := e.Next(ctx)
				switch {
				case !ok:
					return attempts
				case it.Identity().Resource == key.Namespaces:
					tries++
					e.Finish(it, Result{Wanted: true, State: state, Failed: state == "", Retry: time.Second})
				default:
					attempts++
					e.Finish(it, Result{Wanted: true, Retry: time.Minute, Homeless: true, Untried: true})
				}
			}
		}
		e.Touch(append(all, store.Touched{Object: namespace, Want: putWant()}))
		work(time.Millisecond)
		tries = 0
		if n := work(retries * time.Second); tries == 0 || n > tries {
			t.Errorf("%d turns after %d turns of the Namespace without a result", n, tries)
		}
		state = wire.Failed
		if n := work(2 * time.Second); n < count {
			t.Errorf("%d turns after the first result of the Namespace, want %d", n, count)
		}
	})
}

// TestHomelessScoutFails shows that the failed turn of a scout, which may concern no other item, has one other item take
// its place. All others have a turn after a scout has found the Namespace, and each has one if all scouts fail.
func TestHomelessScoutFails(t *testing.T) {
	const count, retry = 20, 5 * time.Second
	for name, fails := range map[string]int{"one": 1, "two": 2, "all": count} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := New()
				defer e.Stop()
				var all []store.Touched
				for i := range count {
					id := key.Identity{Resource: key.ConfigMaps, Namespace: "a", Name: fmt.Sprint(i)}
					all = append(all, store.Touched{Object: key.Object{Space: "s", Identity: id}, Want: putWant()})
				}
				e.Touch(all)
				failed, found := map[string]bool{}, false
				// work gives turns for a time. A scout whose turn fails does not retry by itself.
				work := func(d time.Duration, left int) int {
					ctx, cancel := context.WithTimeout(t.Context(), d)
					defer cancel()
					for given := 0; ; given++ {
						it, ok := e.Next(ctx)
						switch {
						case !ok:
							return given
						case len(failed) < left:
							failed[it.ID] = true
							e.Finish(it, Result{Wanted: true, State: wire.Failed, Failed: true})
						case found:
							e.Finish(it, Result{Wanted: true, State: wire.Applied})
						default:
							e.Finish(it, Result{Wanted: true, State: wire.Waiting, Retry: retry, Homeless: true})
						}
					}
				}
				if n := work(time.Second, 0); n != count {
					t.Fatalf("%d turns at first", n)
				}
				want := fails + 1 // the last one is the next scout, which waits on
				if fails == count {
					want = count
				}
				if n := work(retry, fails); n != want || len(failed) != fails {
					t.Errorf("%d turns with %d failed ones, want %d", n, len(failed), want)
				}
				found = true
				if n := work(retry, 0); n != count-fails || len(e.homeless) > 0 {
					t.Errorf("%d turns after the Namespace was found, and %d Namespaces are waited for", n, len(e.homeless))
				}
			})
		})
	}
}

// TestHomelessScoutChanges shows that a scout whose entry changed has no other item woken while it still needs the
// Namespace: it goes on as the scout. If its new entry has no object, one other item takes its place.
func TestHomelessScoutChanges(t *testing.T) {
	const count, retry = 20, 5 * time.Second
	for name, c := range map[string]struct {
		result Result
		others int // turns of other items
	}{
		"changed during the turn": {Result{Wanted: true, State: wire.Waiting, Retry: 1, Outdated: true}, 0},
		"held":                    {Result{Wanted: true, State: wire.Held}, 1},
		"in conflict":             {Result{Wanted: true, State: wire.InConflict}, 1},
		"exists":                  {Result{Wanted: true, State: wire.InConflict, Seen: &decide.Observed{Existence: decide.Absent, Taken: true}}, count - 1},
		"being deleted":           {Result{Wanted: true, State: wire.Waiting, Seen: &decide.Observed{Existence: decide.Present, Terminating: true}}, count - 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := New()
				defer e.Stop()
				var all []store.Touched
				for i := range count {
					id := key.Identity{Resource: key.ConfigMaps, Namespace: "a", Name: fmt.Sprint(i)}
					all = append(all, store.Touched{Object: key.Object{Space: "s", Identity: id}, Want: putWant()})
				}
				e.Touch(all)
				var changed *Item
				work := func(d time.Duration, change bool) (others int) {
					ctx, cancel := context.WithTimeout(t.Context(), d)
					defer cancel()
					for {
						it, ok := e.Next(ctx)
						switch {
						case !ok:
							return others
						case change && changed == nil:
							changed = it
							e.Finish(it, c.result)
							continue
						case it != changed:
							others++
						}
						e.Finish(it, Result{Wanted: true, State: wire.Waiting, Retry: retry, Homeless: true})
					}
				}
				work(time.Second, false)
				if n := work(retry, true); n != c.others {
					t.Errorf("%d turns of other items, want %d", n, c.others)
				}
				if w := e.homeless[home(changed)]; w == nil || c.others == 0 && w.scout != changed {
					t.Error("the changed item is no longer the scout")
				}
			})
		})
	}
}
