package worklist

import (
	"fmt"
	"testing"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestChangedFirst shows that the objects of a store that are not as the agent left them have their
// turn first, when the list of their kind is complete: changed, replaced and missing ones.
func TestChangedFirst(t *testing.T) {
	const all = 200
	e := New()
	l := loader{Worklist: e}
	shown, sightings := map[string]struct{}{}, []Sighting{}
	for n := range all {
		o := objectOf("s", "core/configmaps/n", n)
		if err := l.want(o, putWant()); err != nil {
			t.Fatal(err)
		}
		if err := l.record(o.Identity, &store.Record{Space: "s", UID: fmt.Sprint("u", n), Fields: 7, Version: "v1", Kind: "ConfigMap"}); err != nil {
			t.Fatal(err)
		}
		seen := decide.Observed{UID: fmt.Sprint("u", n), Revision: uint64(n), Fields: 7}
		switch n {
		case 50:
			seen.Fields = 8
		case 100:
			seen.UID = "another"
		case 150: // it is gone
			continue
		}
		shown[o.Identity.String()] = struct{}{}
		sightings = append(sightings, Sighting{Object: o, Ours: true, Seen: seen})
	}
	e.Observe("", sightings, 0)
	if e.queue.count != 0 {
		t.Fatalf("%d are queued before the list is complete", e.queue.count)
	}
	e.Synced("", key.NewResource("", "configmaps"), shown, all)
	if e.unseen != nil || e.queue.count != all {
		t.Fatalf("%d are kept, %d queued", len(e.unseen), e.queue.count)
	}
	first := map[string]bool{}
	for range 3 {
		it, _ := e.Next(t.Context())
		first[it.Identity().Name] = true
	}
	for _, name := range []string{"s-50", "s-100", "s-150"} {
		if !first[name] {
			t.Errorf("%s does not come first: %v do", name, first)
		}
	}
	e.Stop()
}

// TestForgottenUnseen: what a store had and is forgotten before any list shows it is not kept for that.
func TestForgottenUnseen(t *testing.T) {
	e := New()
	o := objectOf("s", "core/configmaps/n", 1)
	if err := (loader{Worklist: e}).record(o.Identity, &store.Record{Space: "s", UID: "u"}); err != nil {
		t.Fatal(err)
	}
	e.Push(func(*Item) bool { return true })
	it, _ := e.Next(t.Context())
	e.Finish(it, Result{Forget: true, Gone: []key.Space{"s"}})
	if len(e.items) != 0 || e.unseen != nil {
		t.Errorf("%d items, %d unseen are kept", len(e.items), len(e.unseen))
	}
	e.Stop()
}
