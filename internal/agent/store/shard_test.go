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

// TestServe: a store that becomes that of another shard forgets what is of others, is sound,
// and says that what it lacks is yet to be compared; what is its own it keeps.
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
		if shard.Has(space) {
			mine++
		}
		if err := s.View(func(x *Tx) error {
			if x.Desired.Contains(path) != shard.Has(space) || x.Records.Contains(id) != shard.Has(space) || x.Reports.Contains(path) != shard.Has(space) {
				t.Errorf("of %s: desired %t, recorded %t, reported %t", space, x.Desired.Contains(path), x.Records.Contains(id), x.Reports.Contains(path))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	m := s.Meta()
	if m.Count != mine || m.Unsent != 0 || !m.Gained || !m.Survey || m.ReportsAgreed || mine == 0 || mine == spaces {
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

// TestAllowances: what all shards let go at once is never more than what the location may.
func TestAllowances(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		shards, percent := rapid.IntRange(2, key.MaxShards).Draw(t, "shards"), rapid.IntRange(0, 100).Draw(t, "percent")
		objects, sum := 0, 0
		for k := range shards {
			has := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 20_000)).Draw(t, "objects")
			objects += has
			sum += allowance(has*percent/100, key.NewShard(k+1, shards))
		}
		if most := allowance(objects*percent/100, key.Shard{}); sum > most {
			t.Fatalf("the shards let %d go, the location %d", sum, most)
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
	was := s.Meta().ID
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
	if aside, err := filepath.Glob(filepath.Join(dir, "*.corrupt-*")); err != nil || len(aside) != 1 || m.Count != 0 || m.Revision != 0 || m.ID == "" || m.ID == was || m.Outdated {
		t.Errorf("set aside: %v %v; the store is %+v, it was %s", aside, err, m, was)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAllowancesOverAChange: in ten minutes in which the number of shards changes, what all let
// go is never more than twice what the location may: who goes on has counted what it let go,
// and who begins lets go its share.
func TestAllowancesOverAChange(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		percent, windows := rapid.IntRange(0, 100).Draw(t, "percent"), map[int]*pruneWindow{}
		letGo := func(label string) {
			has, went := 0, 0
			shards := rapid.IntRange(1, 5).Draw(t, label)
			for k := 1; k <= shards; k++ {
				shard := key.NewShard(k, shards)
				if windows[k] == nil {
					windows[k] = &pruneWindow{}
				}
				objects := rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(0, 1000)).Draw(t, "objects")
				most := rapid.IntRange(0, objects).Draw(t, "most")
				n := 0
				for n < most && windows[k].take(now, percent, objects-n-1, shard) {
					n++
				}
				has, went = has+objects, went+n
			}
			if may := allowance(has*percent/100, key.Shard{}); went > may {
				t.Fatalf("%s let %d of %d go, the location may %d", label, went, has, may)
			}
		}
		letGo("before")
		letGo("after")
	})
}

// TestAllowanceOfAStore: a store that becomes that of another shard has counted what it let go,
// and a new one nothing.
func TestAllowanceOfAStore(t *testing.T) {
	letGo := func(s *Store) (went int) {
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
		if went := letGo(s); went != want {
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
