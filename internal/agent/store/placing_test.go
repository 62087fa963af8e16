package store

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestPlaces shows what a store of a location with Prefixed namespaces keeps by place, and
// what by the name that the hub knows.
func TestPlaces(t *testing.T) {
	s := opened(t)
	o, err := key.ParsePath("s/core/configmaps/n/a")
	if err != nil {
		t.Fatal(err)
	}
	const id = "core/configmaps/s--n/a"
	object := []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`)
	a, err := Admit(wire.Frame{Put: &wire.Put{Key: o.Path(), UID: "u", Digest: wire.SumOf(object), Policy: wire.Policy{CreateOnly: true}, Object: object}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	var put, del, let []Touched
	if err := write(s, func(x *Tx) error {
		x.Hub.Welcome(wire.Hello{UID: "l", Settings: wire.Settings{Namespaces: "Prefixed"}}, true)
		x.meta.Fresh = false
		var in Intake
		var err error
		if put, in, err = (Intake{Proven: true}).Apply(x, []Arrival{a}, now); err != nil {
			return err
		}
		if err := x.PutRecord(id, &Record{Space: "s", Moved: "n", UID: "there"}); err != nil {
			return err
		}
		for range pruneFree {
			x.Removals.count(now)
		}
		gone, err := Admit(wire.Frame{Del: &wire.Del{Key: o.Path(), Cause: wire.Unassigned}})
		if err != nil {
			return err
		}
		del, _, err = in.Apply(x, []Arrival{gone}, now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, all := range [][]Touched{put, del} {
		if len(all) != 1 || all[0].Object.Identity.String() != id || all[0].Moved != "n" {
			t.Errorf("touched: %+v", all)
		}
	}
	p := pendingOf(t, s)
	if p == nil || !slices.Equal(p.Objects, []string{o.Path()}) {
		t.Fatalf("what waits is %+v", p)
	}
	if err := write(s, func(x *Tx) (err error) {
		if rec, err := x.Records.Get(id); err != nil || !rec.Source.Policy.CreateOnly {
			t.Errorf("the last policy is not remembered: %+v, %v", rec, err)
		}
		x.meta.Settings.Confirm = []wire.Confirmation{{Digest: p.Digest}}
		let, err = x.Removals.confirm()
		return errors.Join(err, x.Orphan(id), x.Reports.Set(o.Path(), &wire.Report{}))
	}); err != nil {
		t.Fatal(err)
	}
	if len(let) != 1 || let[0].Object.Path() != "s/"+id || let[0].Moved != "n" {
		t.Errorf("confirmed: %+v", let)
	}
	if left, err := s.OnlyReported(); err != nil || len(left) != 1 || left[0].Object.Path() != "s/"+id || left[0].Moved != "n" {
		t.Errorf("only reported: %+v, %v", left, err)
	}
}

// TestOnlyReported shows that OnlyReported returns a reported object without a desired entry, whether the
// record of its identity is its own or that of another space's object.
func TestOnlyReported(t *testing.T) {
	s := opened(t)
	const id = "core/configmaps/n/a"
	if err := write(s, func(x *Tx) error {
		return errors.Join(x.Records.set(id, &Record{Space: "has"}), x.Reports.Set("has/"+id, &wire.Report{}), x.Reports.Set("had/"+id, &wire.Report{}))
	}); err != nil {
		t.Fatal(err)
	}
	if left, err := s.OnlyReported(); err != nil || len(left) != 2 || left[0].Object.Path() != "had/"+id || left[1].Object.Path() != "has/"+id {
		t.Errorf("only reported: %+v, %v", left, err)
	}
}

// TestPlacesAreKept shows that a store that has something never takes other places, and that
// the agent halts where the location has others.
func TestPlacesAreKept(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, then   string
		placed, halts bool
	}{
		{name: "new", then: "Prefixed"},
		{name: "nothing was placed", first: "Prefixed", then: ""},
		{name: "the same", first: "Prefixed", then: "Prefixed", placed: true},
		{name: "from Same", first: "", then: "Prefixed", placed: true, halts: true},
		{name: "to Same, as of a hub that does not know better", first: "Prefixed", then: "", placed: true, halts: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := opened(t)
			hear := func(namespaces, uid string, do func(*Tx) error) {
				t.Helper()
				if err := write(s, func(x *Tx) error {
					x.Hub.Welcome(wire.Hello{UID: uid, Settings: wire.Settings{Namespaces: namespaces}}, true)
					return do(x)
				}); err != nil {
					t.Fatal(err)
				}
			}
			hear(c.first, "l", func(x *Tx) error {
				if !c.placed {
					return nil
				}
				return x.Records.set("core/configmaps/n/a", &Record{Space: "s"})
			})
			if why := s.Meta().Halt(); why != "" {
				t.Fatalf("at first: %s", why)
			}
			hear(c.then, "l", func(*Tx) error { return nil })
			if why := s.Meta().Halt(); (why != "") != c.halts || c.halts && !strings.Contains(why, "empty data directory") {
				t.Errorf("halted: %q", why)
			}
			if want := map[bool]string{true: c.first, false: c.then}[c.placed]; string(s.Meta().Placing) != want {
				t.Errorf("places are %q, want %q", s.Meta().Placing, want)
			}
		})
	}
}

// TestPlacesAreNotTakenForSame shows that an agent that knows no places, which reads meta as
// it always was, takes the store for damaged.
func TestPlacesAreNotTakenForSame(t *testing.T) {
	for _, placing := range []string{"", "Prefixed"} {
		s := opened(t)
		if err := write(s, func(x *Tx) error {
			x.Hub.Welcome(wire.Hello{UID: "l", Settings: wire.Settings{Namespaces: placing}}, true)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.View(func(x *Tx) error {
			value, _ := x.stored(metaBucket, string(metaKey))
			text, sum, _ := bytes.Cut(value, []byte("\n"))
			if before := string(sum) == wire.SumOf(text).String(); before != (placing == "") {
				t.Errorf("namespaces %q: an agent of before reads it: %v", placing, before)
			}
			_, err := readMeta(x.tx)
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}
