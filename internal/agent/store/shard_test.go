package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// TestServe makes a store serve another shard. It removes the entries of other spaces and keeps the
// others, stays consistent, and records that a comparison is necessary.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	in := Intake{Proven: true}
	var frames []wire.Frame
	const spaces = 20
	for i := range spaces {
		frames = append(frames, put(fmt.Sprintf("s%d/core/configmaps/n/c%d", i, i), "1", "x"))
	}
	if err := take(s, &in, frames...); err != nil {
		t.Fatal(err)
	}
	if _, err := s.update([]*Commit{{Do: func(x *Tx) error {
		for i := range spaces {
			id := fmt.Sprintf("core/configmaps/n/c%d", i)
			r := recordOf("1", "x")
			r.Space = key.Space(fmt.Sprintf("s%d", i))
			if err := x.Records.set(id, r); err != nil {
				return err
			}
			if err := x.Reports.Set(fmt.Sprintf("s%d/%s", i, id), &wire.Report{UID: "1", State: wire.Applied}); err != nil {
				return err
			}
		}
		return nil
	}}}); err != nil {
		t.Fatal(err)
	}
	shard := key.NewShard(2, 3)
	if err := s.Serve(shard); !errors.Is(err, ErrUnsent) {
		t.Fatalf("with reports that were not sent: %v", err)
	}
	if _, err := s.update([]*Commit{{Do: func(x *Tx) error {
		for i := range spaces {
			line := fmt.Sprintf("s%d/core/configmaps/n/c%d", i, i)
			x.meta.Unsent--
			if err := x.remove(unsentBucket, line); err != nil {
				return err
			}
		}
		return nil
	}}}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing happens
		if err := s.Serve(shard); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Inspect(); err != nil {
		t.Error(err)
	}
	mine := 0
	for i := range spaces {
		id, space := fmt.Sprintf("core/configmaps/n/c%d", i), key.Space(fmt.Sprintf("s%d", i))
		path := fmt.Sprintf("s%d/%s", i, id)
		if shard.Contains(space) {
			mine++
		}
		if err := s.View(func(x *Tx) error {
			if x.Desired.Contains(path) != shard.Contains(space) || x.Records.Contains(id) != shard.Contains(space) || x.Reports.Contains(path) != shard.Contains(space) {
				t.Errorf("of %s: desired %t, recorded %t, reported %t", space, x.Desired.Contains(path), x.Records.Contains(id), x.Reports.Contains(path))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	m := s.Meta()
	if m.Count != mine || m.Unsent != 0 || !m.Gained || !m.SearchPending || m.ReportsAgreed || mine == 0 || mine == spaces {
		t.Errorf("of %d spaces %d are in the shard; %+v", spaces, mine, m)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if s.Meta().Shard != shard {
		t.Errorf("another process finds the store of %s", s.Meta().Shard)
	}
	// A mark of what the store has ends the wait.
	if err := take(s, &in, wire.Frame{Mark: &wire.Mark{Revision: 7, Marker: "m", Root: s.Meta().Root}}); err != nil {
		t.Fatal(err)
	}
	if m := s.Meta(); m.Gained || m.Revision != 7 || m.Marker != "m" || m.Seen != (ownership.Pair{}) {
		t.Errorf("after all was compared: %+v", m)
	}
}

// TestAllowances shows that all shards together never allow more removals than the location.
func TestAllowances(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		shards, percent := rapid.IntRange(2, key.MaxShards).Draw(t, "shards"), rapid.IntRange(0, 100).Draw(t, "percent")
		objects, sum := 0, 0
		for k := range shards {
			own := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 20_000)).Draw(t, "objects")
			objects += own
			sum += allowance(own*percent/100, key.NewShard(k+1, shards))
		}
		if most := allowance(objects*percent/100, key.Shard{}); sum > most {
			t.Fatalf("the shards allow %d removals, the location %d", sum, most)
		}
	})
}

// TestOutdated: a store that another one of the shard has made worthless is set aside when it
// is opened again, and the agent begins with nothing, under another name.
func TestOutdated(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Serve(key.NewShard(1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := take(s, &Intake{Proven: true}, put("s/core/configmaps/n/c", "1", "x")); err != nil {
		t.Fatal(err)
	}
	old := s.Meta().ID
	if _, err := s.update([]*Commit{{Do: func(x *Tx) error { x.Target.SetOutdated(); return nil }}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if err := s.Serve(key.NewShard(1, 2)); err != nil {
		t.Fatal(err)
	}
	m := s.Meta()
	if aside, err := filepath.Glob(filepath.Join(dir, "*.corrupt-*")); err != nil || len(aside) != 1 || m.Count != 0 || m.Revision != 0 || m.ID == "" || m.ID == old || m.Outdated {
		t.Errorf("set aside: %v %v; the store is %+v, it was %s", aside, err, m, old)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAllowancesOverAChange changes the number of shards within ten minutes. The removals of all shards
// never exceed twice the allowance of the location: an agent that continues has counted its removals, and
// an agent that starts removes at most its share.
func TestAllowancesOverAChange(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		percent, windows := rapid.IntRange(0, 100).Draw(t, "percent"), map[int]*pruneWindow{}
		remove := func(label string) {
			objects, removed := 0, 0
			shards := rapid.IntRange(1, 5).Draw(t, label)
			for k := 1; k <= shards; k++ {
				shard := key.NewShard(k, shards)
				if windows[k] == nil {
					windows[k] = &pruneWindow{}
				}
				own := rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(0, 1000)).Draw(t, "objects")
				most := rapid.IntRange(0, own).Draw(t, "most")
				n := 0
				for n < most && windows[k].take(now, percent, own-n-1, shard) {
					n++
				}
				objects, removed = objects+own, removed+n
			}
			if may := allowance(objects*percent/100, key.Shard{}); removed > may {
				t.Fatalf("%s the change, %d of %d objects are removed, the location allows %d", label, removed, objects, may)
			}
		}
		remove("before")
		remove("after")
	})
}

// TestAllowanceOfAStore: a store that becomes that of another shard has counted what it let go,
// and a new one nothing.
func TestAllowanceOfAStore(t *testing.T) {
	remove := func(s *Store) (went int) {
		if err := write(s, func(x *Tx) error {
			x.meta.Settings.PruneMaxPercent = 0
			for x.Removals.count(now) {
				went++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return went
	}
	serve := func(s *Store, shard key.Shard, want int) {
		t.Helper()
		if err := s.Serve(shard); err != nil {
			t.Fatal(err)
		}
		if went := remove(s); went != want {
			t.Errorf("as %s %d went, want %d", shard, went, want)
		}
	}
	first := opened(t)
	serve(first, key.Shard{}, pruneFree)
	serve(first, key.NewShard(1, 2), 0)
	serve(opened(t), key.NewShard(2, 2), pruneFree/2)
	serve(opened(t), key.NewShard(1, 2), pruneFree/2) // instead of the first, which was lost
	second := opened(t)
	serve(second, key.NewShard(1, 5), pruneFree/5)
	serve(second, key.NewShard(1, 2), pruneFree/2-pruneFree/5)
	serve(second, key.Shard{}, pruneFree-pruneFree/2)
}
