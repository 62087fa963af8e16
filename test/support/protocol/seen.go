package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// seenCases are about reports of what was not placed.
func seenCases() []hubCase {
	return []hubCase{
		{"Upsync", upsyncs},
		{"UpsyncYields", upsyncYields},
		{"UpsyncEnds", upsyncEnds},
		{"UpsyncLimits", upsyncLimits},
		{"Owned", ownedComeBack},
		{"SeenWalk", walksSeen},
	}
}

// lineOf is the line of an object of a name that was not placed.
func lineOf(origin key.Origin, name string) string {
	o, err := key.ParsePath(KeyOf(name))
	if err != nil {
		panic(err)
	}
	return key.Report{Origin: origin, Object: o}.Line()
}

// seen is a report of an object of a name that was not placed; owner is that of an owned one.
func seen(name, value, owner string) wire.ReportLine {
	line := lineOf(key.Born, name)
	if owner != "" {
		line = lineOf(key.Owned, name)
	}
	object := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default","uid":"u-%s"},"data":{"k":%q}}`, name, name, value)
	return wire.ReportLine{Key: line, Report: &wire.Report{UID: "u-" + name, State: wire.Present, Since: "2030-01-01T00:00:00Z", Owner: owner, Object: json.RawMessage(object)}}
}

// takes reports lines, of which some are to be refused.
func (e *exam) takes(refused []string, lines ...wire.ReportLine) {
	e.Helper()
	answer, err := e.Client().Report(e.ctx, lines...)
	e.ok(err)
	var got []string
	for _, r := range answer.Refused {
		if got = append(got, r.Key); r.Message == "" {
			e.Errorf("%q is refused without a reason", r.Key)
		}
	}
	if !slices.Equal(got, refused) {
		e.Errorf("refused are %+v, want %q", answer.Refused, refused)
	}
}

// keeps sees that the hub has exactly some of the lines.
func (e *exam) keeps(line wire.ReportLine, there bool) {
	e.Helper()
	lines, err := e.Client().Reports(e.ctx, line.Key)
	e.ok(err)
	switch got := lines[0].Report; {
	case (got != nil) != there:
		e.Errorf("%q is kept as %+v", line.Key, got)
	case there && got.Sum() != line.Report.Sum():
		e.Errorf("%q is kept as %+v, was %+v", line.Key, got, line.Report)
	}
}

// within asks until there is an answer.
func (e *exam) within(done func() bool) {
	e.Helper()
	for !done() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-e.ctx.Done():
			e.Fatal(e.ctx.Err())
		}
	}
}

// told takes frames over up to settings that fn accepts.
func (s *session) told(fn func(wire.Settings) bool) {
	s.e.Helper()
	for {
		f := s.next()
		s.e.ok(s.e.have.Apply(f))
		if f.Mark != nil {
			s.e.at = *f.Mark
		}
		if f.Settings != nil && fn(*f.Settings) {
			return
		}
	}
}

// upsyncs: an agent that can is asked for what spaces want to see, and what it says of that is
// taken and kept; of nothing else, and of no other agent.
func upsyncs(e *exam) {
	e.capabilities = wire.Sees
	s := e.open()
	if s.hello.Settings.Upsync != nil {
		e.Errorf("nobody asks, and the hello is %+v", s.hello.Settings)
	}
	e.takes([]string{seen("x", "1", "").Key}, seen("x", "1", ""))
	e.Upsync("x", "w")
	s.told(func(is wire.Settings) bool {
		want := wire.Upsync{Space: "s", Group: "core", Resources: []string{"configmaps"}, Names: []string{"w", "x"}}
		return len(is.Upsync) == 1 && is.Upsync[0].Equal(want) && is.UpsyncObjects > 0 && is.UpsyncBytes > 0
	})
	e.takes(nil, seen("x", "1", ""))
	e.keeps(seen("x", "1", ""), true)
	e.isQuiet(seen("x", "1", ""))
	e.takes(nil, seen("x", "2", ""))
	e.keeps(seen("x", "2", ""), true)
	placed := seen("x", "1", "")
	placed.Key = KeyOf("x")
	owned := seen("x", "1", "core/configmaps/default/w")
	e.takes([]string{seen("y", "1", "").Key, KeyOf("x"), owned.Key}, seen("y", "1", ""), placed, owned, seen("w", "1", ""))
	e.keeps(seen("w", "1", ""), true)
	e.takes(nil, wire.ReportLine{Key: seen("x", "1", "").Key, Removed: true})
	e.keeps(seen("x", "1", ""), false)
	e.takes(nil, wire.ReportLine{Key: seen("x", "1", "").Key, Removed: true})

	e.capabilities = ""
	if s := e.open(); s.hello.Settings.Upsync != nil || s.hello.Settings.UpsyncObjects != 0 || s.hello.Settings.UpsyncBytes != 0 {
		e.Errorf("an agent that can't is told %+v", s.hello.Settings)
	}
}

// upsyncYields: what is asked for is left to the location by a hold, of which the agent hears
// not before it is asked, and no removal; when nobody asks any more, it is desired again.
func upsyncYields(e *exam) {
	e.capabilities = wire.Sees
	e.Desire("one", "1")
	e.walk()
	s := e.open()
	e.Upsync("one")
	s.told(func(is wire.Settings) bool {
		if f := e.have.Root(); f != e.at.Root {
			e.Error("the object is left to the location before the agent is asked for it")
		}
		return len(is.Upsync) == 1
	})
	var held *wire.Hold
	for held == nil {
		for _, f := range s.follow(always) {
			if f.Del != nil {
				e.Fatalf("it is removed: %+v", f.Del)
			}
			if f.Hold != nil {
				held = f.Hold
			}
		}
	}
	if held.Key != KeyOf("one") || held.Reason != v1alpha1.ReasonUpsynced || e.have.Root() != e.at.Root {
		e.Errorf("it is held as %+v", held)
	}
	e.alsoFetched(func(f wire.Frame) bool { return f.Hold != nil && *f.Hold == *held })
	e.Upsync()
	putOf(e, s.follow(func() bool { return e.have.Root() == e.at.Root && e.at.Count == 1 && e.has("one")() }), "one")
}

// upsyncEnds: what nobody asks for any more the hub forgets, whether or not the agent says so,
// and tells it that it has: it may be asked for again by then, as if nothing had been.
func upsyncEnds(e *exam) {
	e.capabilities = wire.Sees
	e.Upsync("x")
	before := e.open().hello.Settings
	e.takes(nil, seen("x", "1", ""))
	e.Upsync()
	e.within(func() bool {
		lines, err := e.Client().Reports(e.ctx, seen("x", "1", "").Key)
		e.ok(err)
		return lines[0].Removed
	})
	e.Upsync("x")
	e.within(func() bool {
		s := e.open()
		defer s.stream.Close()
		now := s.hello.Settings
		return len(now.Upsync) == 1 && now.Dropped != before.Dropped
	})
	e.takes(nil, seen("x", "1", ""))
	e.keeps(seen("x", "1", ""), true)
}

// upsyncLimits: what is more than may come back is refused, line by line, until there is room.
func upsyncLimits(e *exam) {
	e.capabilities = wire.Sees
	e.Upsync("v", "w", "x", "y")
	e.Bound(2)
	e.within(func() bool {
		s := e.open()
		defer s.stream.Close()
		return s.hello.Settings.UpsyncObjects == 2
	})
	e.takes([]string{seen("x", "1", "").Key, seen("y", "1", "").Key}, seen("v", "1", ""), seen("w", "1", ""), seen("x", "1", ""), seen("y", "1", ""))
	e.takes(nil, seen("w", "2", "")) // what is there may change
	e.takes(nil, wire.ReportLine{Key: seen("v", "1", "").Key, Removed: true}, seen("x", "1", ""))
	e.takes([]string{seen("y", "1", "").Key}, seen("y", "1", ""))
	for name, there := range map[string]bool{"v": false, "x": true, "y": false} {
		e.keeps(seen(name, "1", ""), there)
	}
}

// ownedComeBack: what belongs to a placed object is taken of the kinds that its policy asks for,
// as long as it is desired.
func ownedComeBack(e *exam) {
	e.capabilities = wire.Sees
	const one = "core/configmaps/default/one"
	e.Associate("one")
	e.Desire("two", "1")
	e.alsoFetched(func(f wire.Frame) bool { return f.Put != nil && f.Put.Policy.Associated == "core/configmaps" })
	e.capabilities = ""
	e.alsoFetched(func(f wire.Frame) bool { return f.Put != nil && f.Put.Policy.Associated == "" })
	e.capabilities = wire.Sees
	secret := seen("x", "1", one)
	secret.Key = "~owned:s/core/secrets/default/x"
	e.takes([]string{seen("y", "1", "").Key, secret.Key, seen("z", "1", one).Key},
		seen("x", "1", one), seen("y", "1", ""), secret, seen("z", "1", "core/configmaps/default/two"))
	e.keeps(seen("x", "1", one), true)
	e.isQuiet(seen("x", "1", one))
	e.Delete("one")
	e.within(func() bool {
		lines, err := e.Client().Reports(e.ctx, seen("x", "1", one).Key)
		e.ok(err)
		return lines[0].Removed
	})
	e.takes([]string{seen("x", "1", one).Key}, seen("x", "1", one))
}

// walksSeen: what was not placed follows, in walks of reports, all that was; an agent that can't
// report it is not told of it.
func walksSeen(e *exam) {
	e.capabilities = wire.Sees
	e.Associate("one")
	e.Upsync("x", "y")
	mine, placed := Holding{}, Holding{}
	first := wire.Report{UID: "u", State: wire.Applied}
	e.takes(nil, report("one", first))
	mine[KeyOf("one")], placed[KeyOf("one")] = first.Sum(), first.Sum()
	for _, l := range []wire.ReportLine{seen("x", "1", ""), seen("y", "1", ""), seen("z", "1", "core/configmaps/default/one")} {
		e.takes(nil, l)
		mine[l.Key] = l.Report.Sum()
	}
	for can, have := range map[string]Holding{wire.Sees: mine, "": placed} {
		e.capabilities = can
		frames, err := e.Client().Exchange(e.ctx, route.ReportsWalk, wire.Walk{}, have.Index().Span("", ""))
		e.ok(err)
		if len(frames) != 2 || frames[1].Mark.Root != have.Root() || frames[1].Mark.Count != len(have) {
			e.Errorf("as one that announces %q a walk has %+v, want %+v", can, frames, have)
		}
	}
	e.capabilities = wire.Sees
	x, ghost := seen("x", "1", "").Key, seen("ghost", "1", "").Key
	mine[x], mine[ghost] = wire.SumOf([]byte("x")), wire.SumOf([]byte("y"))
	frames, err := e.Client().Exchange(e.ctx, route.ReportsWalk, wire.Walk{}, mine.Index().Span("", ""))
	e.ok(err)
	if len(frames) != 3 || frames[1].Part == nil {
		e.Fatalf("a walk has %+v", frames)
	}
	if d := mine.Index().Compare(*frames[1].Part); !slices.Equal(d.Theirs, []string{x}) || !slices.Equal(d.Mine, []string{ghost}) {
		e.Errorf("it finds %+v", d)
	}
	lines, err := e.Client().Reports(e.ctx, x, ghost, KeyOf("one"))
	e.ok(err)
	if len(lines) != 3 || lines[0].Report == nil || !lines[1].Removed || lines[2].Report == nil {
		e.Errorf("fetched are %+v", lines)
	}
}
