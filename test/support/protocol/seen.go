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

// seenCases are requirements on reports of objects that were not placed.
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

// lineOf returns the key of a report about the object with a name.
func lineOf(origin key.Origin, name string) string {
	o, err := key.ParsePath(KeyOf(name))
	if err != nil {
		panic(err)
	}
	return key.Report{Origin: origin, Object: o}.Line()
}

// seen returns a report about an upsynced object with a name, or, if owner is not empty, about an
// associated one.
func seen(name, value, owner string) wire.ReportLine {
	line := lineOf(key.Upsynced, name)
	if owner != "" {
		line = lineOf(key.Owned, name)
	}
	object := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default","uid":"u-%s"},"data":{"k":%q}}`, name, name, value)
	return wire.ReportLine{Key: line, Report: &wire.Report{UID: "u-" + name, State: wire.Present, Since: "2030-01-01T00:00:00Z", Owner: owner, Object: json.RawMessage(object)}}
}

// mustReport sends reports, of which the hub must refuse some and accept the others.
func (e *exam) mustReport(refused []string, lines ...wire.ReportLine) {
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

// mustKeep checks that the hub has a report, or that it has none with its key.
func (e *exam) mustKeep(line wire.ReportLine, exists bool) {
	e.Helper()
	lines, err := e.Client().Reports(e.ctx, line.Key)
	e.ok(err)
	switch got := lines[0].Report; {
	case (got != nil) != exists:
		e.Errorf("%q is kept as %+v", line.Key, got)
	case exists && got.Sum() != line.Report.Sum():
		e.Errorf("%q is kept as %+v, was %+v", line.Key, got, line.Report)
	}
}

// within calls done until it returns true.
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

// untilSettings applies frames up to settings for which fn returns true.
func (s *session) untilSettings(fn func(wire.Settings) bool) {
	s.e.Helper()
	for {
		f := s.next()
		s.e.ok(s.e.have.Apply(f))
		if f.Mark != nil {
			s.e.last = *f.Mark
		}
		if f.Settings != nil && fn(*f.Settings) {
			return
		}
	}
}

// upsyncs: an agent that supports upsync receives the requests of spaces, and the hub stores its reports
// of requested objects, and of no others. Other agents receive no requests.
func upsyncs(e *exam) {
	e.capabilities = wire.Upsyncs
	s := e.open()
	if s.hello.Settings.Upsync != nil {
		e.Errorf("without a request the hello is %+v", s.hello.Settings)
	}
	e.mustReport([]string{seen("x", "1", "").Key}, seen("x", "1", ""))
	e.Upsync("x", "w")
	s.untilSettings(func(is wire.Settings) bool {
		want := wire.Upsync{Space: "s", Group: "core", Resources: []string{"configmaps"}, Names: []string{"w", "x"}}
		return len(is.Upsync) == 1 && is.Upsync[0].Equal(want) && is.UpsyncObjects > 0 && is.UpsyncBytes > 0
	})
	e.mustReport(nil, seen("x", "1", ""))
	e.mustKeep(seen("x", "1", ""), true)
	e.isQuiet(seen("x", "1", ""))
	e.mustReport(nil, seen("x", "2", ""))
	e.mustKeep(seen("x", "2", ""), true)
	placed := seen("x", "1", "")
	placed.Key = KeyOf("x")
	owned := seen("x", "1", "core/configmaps/default/w")
	e.mustReport([]string{seen("y", "1", "").Key, KeyOf("x"), owned.Key}, seen("y", "1", ""), placed, owned, seen("w", "1", ""))
	e.mustKeep(seen("w", "1", ""), true)
	e.mustReport(nil, wire.ReportLine{Key: seen("x", "1", "").Key, Removed: true})
	e.mustKeep(seen("x", "1", ""), false)
	e.mustReport(nil, wire.ReportLine{Key: seen("x", "1", "").Key, Removed: true})

	e.capabilities = ""
	if s := e.open(); s.hello.Settings.Upsync != nil || s.hello.Settings.UpsyncObjects != 0 || s.hello.Settings.UpsyncBytes != 0 {
		e.Errorf("an agent without upsync receives %+v", s.hello.Settings)
	}
}

// upsyncYields: the hub leaves a requested object to the location by a hold, without a removal. The
// agent receives the request before the hold. When no space requests the object any more, it is
// desired again.
func upsyncYields(e *exam) {
	e.capabilities = wire.Upsyncs
	e.Desire("one", "1")
	e.walk()
	s := e.open()
	e.Upsync("one")
	s.untilSettings(func(is wire.Settings) bool {
		if f := e.have.Root(); f != e.last.Root {
			e.Error("the hold comes before the request")
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
	if held.Key != KeyOf("one") || held.Reason != v1alpha1.ReasonUpsynced || e.have.Root() != e.last.Root {
		e.Errorf("it is held as %+v", held)
	}
	e.alsoFetched(func(f wire.Frame) bool { return f.Hold != nil && *f.Hold == *held })
	e.Upsync()
	putOf(e, s.follow(func() bool { return e.have.Root() == e.last.Root && e.last.Count == 1 && e.contains("one")() }), "one")
}

// upsyncEnds: the hub drops reports that no space requests any more, without a report of the agent, and
// sends the agent the revision of that in the settings: a new request may follow at once.
func upsyncEnds(e *exam) {
	e.capabilities = wire.Upsyncs
	e.Upsync("x")
	before := e.open().hello.Settings
	e.mustReport(nil, seen("x", "1", ""))
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
	e.mustReport(nil, seen("x", "1", ""))
	e.mustKeep(seen("x", "1", ""), true)
}

// upsyncLimits: the hub refuses each report above the limits until there is room.
func upsyncLimits(e *exam) {
	e.capabilities = wire.Upsyncs
	e.Upsync("v", "w", "x", "y")
	e.Bound(2)
	e.within(func() bool {
		s := e.open()
		defer s.stream.Close()
		return s.hello.Settings.UpsyncObjects == 2
	})
	e.mustReport([]string{seen("x", "1", "").Key, seen("y", "1", "").Key}, seen("v", "1", ""), seen("w", "1", ""), seen("x", "1", ""), seen("y", "1", ""))
	e.mustReport(nil, seen("w", "2", "")) // a known report may change
	e.mustReport(nil, wire.ReportLine{Key: seen("v", "1", "").Key, Removed: true}, seen("x", "1", ""))
	e.mustReport([]string{seen("y", "1", "").Key}, seen("y", "1", ""))
	for name, exists := range map[string]bool{"v": false, "x": true, "y": false} {
		e.mustKeep(seen(name, "1", ""), exists)
	}
}

// ownedComeBack: the hub accepts reports of associated objects of the kinds in the policy of their owner,
// as long as the owner is desired.
func ownedComeBack(e *exam) {
	e.capabilities = wire.Upsyncs
	const one = "core/configmaps/default/one"
	e.Associate("one")
	e.Desire("two", "1")
	e.alsoFetched(func(f wire.Frame) bool { return f.Put != nil && f.Put.Policy.Associated == "core/configmaps" })
	e.capabilities = ""
	e.alsoFetched(func(f wire.Frame) bool { return f.Put != nil && f.Put.Policy.Associated == "" })
	e.capabilities = wire.Upsyncs
	secret := seen("x", "1", one)
	secret.Key = "~owned:s/core/secrets/default/x"
	e.mustReport([]string{seen("y", "1", "").Key, secret.Key, seen("z", "1", one).Key},
		seen("x", "1", one), seen("y", "1", ""), secret, seen("z", "1", "core/configmaps/default/two"))
	e.mustKeep(seen("x", "1", one), true)
	e.isQuiet(seen("x", "1", one))
	e.Delete("one")
	e.within(func() bool {
		lines, err := e.Client().Reports(e.ctx, seen("x", "1", one).Key)
		e.ok(err)
		return lines[0].Removed
	})
	e.mustReport([]string{seen("x", "1", one).Key}, seen("x", "1", one))
}

// walksSeen: in comparisons of reports, objects that were not placed follow all placed ones. They are
// omitted for an agent without upsync.
func walksSeen(e *exam) {
	e.capabilities = wire.Upsyncs
	e.Associate("one")
	e.Upsync("x", "y")
	mine, placed := Holding{}, Holding{}
	first := wire.Report{UID: "u", State: wire.Applied}
	e.mustReport(nil, report("one", first))
	mine[KeyOf("one")], placed[KeyOf("one")] = first.Sum(), first.Sum()
	for _, l := range []wire.ReportLine{seen("x", "1", ""), seen("y", "1", ""), seen("z", "1", "core/configmaps/default/one")} {
		e.mustReport(nil, l)
		mine[l.Key] = l.Report.Sum()
	}
	for capability, have := range map[string]Holding{wire.Upsyncs: mine, "": placed} {
		e.capabilities = capability
		frames, err := e.Client().Exchange(e.ctx, route.ReportsWalk, wire.Walk{}, have.Index().Span("", ""))
		e.ok(err)
		if len(frames) != 2 || frames[1].Mark.Root != have.Root() || frames[1].Mark.Count != len(have) {
			e.Errorf("with the capability %q a comparison has %+v, want %+v", capability, frames, have)
		}
	}
	e.capabilities = wire.Upsyncs
	x, ghost := seen("x", "1", "").Key, seen("ghost", "1", "").Key
	mine[x], mine[ghost] = wire.SumOf([]byte("x")), wire.SumOf([]byte("y"))
	frames, err := e.Client().Exchange(e.ctx, route.ReportsWalk, wire.Walk{}, mine.Index().Span("", ""))
	e.ok(err)
	if len(frames) != 3 || frames[1].RangeDifference == nil {
		e.Fatalf("a comparison has %+v", frames)
	}
	if d := mine.Index().Compare(*frames[1].RangeDifference); !slices.Equal(d.Theirs, []string{x}) || !slices.Equal(d.Mine, []string{ghost}) {
		e.Errorf("it finds %+v", d)
	}
	lines, err := e.Client().Reports(e.ctx, x, ghost, KeyOf("one"))
	e.ok(err)
	if len(lines) != 3 || lines[0].Report == nil || !lines[1].Removed || lines[2].Report == nil {
		e.Errorf("fetched are %+v", lines)
	}
}
