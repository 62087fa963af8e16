package mapper

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

// TestPairOfAnEntry shows which frames give an entry another pair: those that make it
// another object, or desired anew.
func TestPairOfAnEntry(t *testing.T) {
	at := func(f wire.Frame, revision int64, marker string) wire.Frame {
		p := *f.Put
		p.Revision, p.Marker = revision, marker
		return wire.Frame{Put: &p}
	}
	policy := func(f wire.Frame) wire.Frame {
		p := *f.Put
		p.Policy.ReturnStatus = true
		return wire.Frame{Put: &p}
	}
	protect := func(f wire.Frame) wire.Frame {
		p := *f.Put
		p.Policy.Orphan = true
		return wire.Frame{Put: &p}
	}
	hold := wire.Frame{Hold: &wire.Hold{Key: keyA, UID: "1", Digest: digest("hold"), Error: "rule"}}
	conflict := wire.Frame{Conflict: &wire.Conflict{Key: keyA, UID: "1", Digest: digest("conflict"), Owner: "t/x"}}
	a := put(keyA, "1", "a")
	for name, c := range map[string]struct {
		between []wire.Frame
		next    wire.Frame
		want    marks.Pair
	}{
		"the same":        {nil, at(a, 9, "n"), marks.NewPair("m", 5)},
		"another policy":  {nil, at(policy(a), 9, "n"), marks.NewPair("m", 5)},
		"protected":       {nil, at(protect(a), 9, "n"), marks.NewPair("n", 9)},
		"not any more":    {[]wire.Frame{at(protect(a), 7, "n")}, at(a, 9, "n"), marks.NewPair("n", 7)},
		"held in between": {[]wire.Frame{hold}, at(a, 9, "n"), marks.NewPair("m", 5)},
		"edited":          {nil, at(put(keyA, "1", "b"), 9, "n"), marks.NewPair("n", 9)},
		"made anew":       {nil, at(put(keyA, "2", "a"), 9, "n"), marks.NewPair("n", 9)},
		"assigned anew":   {[]wire.Frame{del(keyA, wire.Unassigned)}, at(a, 9, "n"), marks.NewPair("n", 9)},
		"yielded":         {[]wire.Frame{conflict}, at(a, 9, "n"), marks.NewPair("n", 9)},
		"of an older hub": {nil, put(keyA, "1", "b"), marks.Pair{}},
		"by the hello":    {nil, at(put(keyA, "1", "b"), 9, ""), marks.NewPair("m", 9)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t)
			frames := []any{hello(4, wire.Sum{}, nil), at(a, 5, "")}
			for _, f := range append(c.between, c.next) {
				frames = append(frames, f)
			}
			s.on("desired", answer{body: lines(append(frames, bye)...)})
			if err := s.once(); err == nil {
				t.Fatal("the session goes on")
			}
			if got := s.content()[keyA].Leaf.Log; got != c.want {
				t.Errorf("the pair is %s, want %s", got, c.want)
			}
		})
	}
}

// pairOf is the pair that stands at an object, and how many writes there were.
func (w *world) pairOf(id key.Identity) (p marks.Pair, writes int) {
	w.at(func(c *cluster) {
		if o := c.objects[id.String()]; o != nil {
			p = marks.ParsePair(o.meta("annotations", v1alpha1.LogAnnotation))
		}
		writes = c.writes
	})
	return p, writes
}

// TestModelPair shows when the pair of an object is written: with each apply, and by
// itself where it is desired anew, or of an accepted log, without any other change.
func TestModelPair(t *testing.T) {
	for name, policy := range map[string]wire.Policy{
		"applied": {}, "createOnly": {CreateOnly: true}, "reportDrift": {ReportDrift: true}, "released": {Release: "$.data.v"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, dir)
				defer w.stop(true)
				id := identities[2]
				k := key.Object{Space: "s", Identity: id}.Path()
				offer := func(v string, p wire.Policy) {
					w.hub.mu.Lock()
					defer w.hub.mu.Unlock()
					w.offer(k, "u-s1", wire.Frame{}, map[string]any{
						"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"v": v, "w": v},
						"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace},
					}, p)
				}
				writes := 0
				step := func(what string, moves bool, most int) {
					t.Helper()
					<-time.After(2 * time.Minute)
					now, all := w.pairOf(id)
					w.hub.mu.Lock()
					latest := marks.NewPair(w.hub.marker(w.hub.revision), w.hub.revision)
					w.hub.mu.Unlock()
					if moves && now != latest {
						t.Errorf("%s: the pair is %s, the hub is at %s", what, now, latest)
					}
					if n := all - writes; n > most || !moves && n > 0 {
						t.Errorf("%s: it took %d writes", what, n)
					}
					writes = all
				}
				offer("1", policy)
				step("made", true, 3)
				offer("2", policy)
				if policy.CreateOnly { // which is not written to, whatever its source becomes
					step("edited", false, 0)
				} else {
					step("edited", true, 2)
				}
				other := policy
				other.ReturnStatus = true
				offer("2", other)
				step("another policy", false, 0)
				w.hub.mu.Lock()
				w.hub.settings.Halt = "paused"
				w.hub.say()
				w.hub.mu.Unlock()
				<-time.After(time.Second)
				w.drop(id, 0, 1)
				<-time.After(time.Second)
				offer("2", other)
				w.heal()
				step("assigned anew", true, 1)
				w.hub.mu.Lock()
				w.hub.restore(w.hub.revision - 1)
				w.hub.settings.Accept = w.hub.marker(w.hub.revision)
				w.hub.say()
				w.hub.mu.Unlock()
				<-time.After(time.Minute)
				offer("2", other) // or the copy would not have it
				<-time.After(time.Minute)
				now, _ := w.pairOf(id)
				if now.Marker() != w.hub.settings.Accept {
					t.Errorf("accepted: the pair is %s, not of %s", now, w.hub.settings.Accept)
				}
				if len(w.bad) > 0 {
					t.Error(w.bad)
				}
			})
		})
	}
}
