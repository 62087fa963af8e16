package protocol

import (
	"errors"
	"io"

	"orrery.dev/orrery/internal/protocol/wire"
)

// logCases are about the log, and which revisions are of it.
func logCases() []hubCase {
	return []hubCase{
		{"Restart", restarts},
		{"Restore", restores},
		{"Lineage", lineages},
		{"LineageOfRestored", lineageOfRestored},
	}
}

// restarts: a session goes on over a start of the hub, which leaves a marker.
func restarts(e *exam) {
	e.Desire("one", "1")
	e.walk()
	s, before := e.open(), e.at
	e.Restart()
	for {
		f, err := s.stream.Next()
		if f.Bye != nil && f.Bye.Reason != wire.ByeShutdown {
			e.Errorf("bye is %+v", f.Bye)
		}
		if f.Del != nil {
			e.Errorf("the end of the hub removes %+v", f.Del)
		}
		if err != nil {
			break
		}
	}
	e.Desire("two", "2")
	again := e.from(before.Revision, before.Marker)
	if !again.hello.Continuous || !again.hello.Resumed || again.hello.Marker == before.Marker {
		e.Fatalf("the hello is %+v after %+v", again.hello, before)
	}
	again.follow(e.has("one", "two"))
	if e.at.Marker != again.hello.Marker || e.at.Revision <= before.Revision {
		e.Errorf("the mark is %+v, the hello %+v", e.at, again.hello)
	}
}

// restores: an older copy of the log is told from the log.
func restores(e *exam) {
	e.Desire("one", "1")
	e.walk()
	copied := e.at
	e.Backup()
	e.Desire("two", "2")
	e.walk()
	e.Restore()
	if s := e.open(); s.hello.Continuous || s.hello.Resumed || s.hello.Count != 1 {
		e.Errorf("what the copy has not: the hello is %+v", s.hello)
	}
	if s := e.from(copied.Revision, copied.Marker); !s.hello.Continuous {
		e.Errorf("what the copy has: the hello is %+v", s.hello)
	}
	frames, err := e.Client().walkPage(e.ctx, wire.Walk{After: e.at.Revision, Marker: e.at.Marker}, []wire.Span{{}})
	e.ok(err)
	if h := frames[0].Hello; h.Continuous {
		e.Errorf("of a walk the hello is %+v", h)
	}
}

// placeOf is where in the log a put was delivered.
func placeOf(p *wire.Put, hello wire.Hello) place {
	if p.Marker == "" {
		return place{hello.Marker, p.Revision}
	}
	return place{p.Marker, p.Revision}
}

// proves asks whether a place is of the log.
func (e *exam) proves(p place) bool {
	e.Helper()
	answer, err := e.Client().Lineage(e.ctx, "FOREIGN", p.marker)
	e.ok(err)
	if len(answer.Spans["FOREIGN"]) > 0 || answer.Marker == "" || answer.Revision == 0 {
		e.Errorf("the hub says %+v", answer)
	}
	for _, span := range answer.Spans[p.marker] {
		if span.Has(p.revision) {
			return true
		}
	}
	return false
}

// lineages: each put says where in the log it is, over starts of the hub, which proves it.
func lineages(e *exam) {
	s := e.open()
	e.Desire("one", "1")
	one := placeOf(putOf(e, s.follow(e.has("one")), "one"), s.hello)
	from := place{s.hello.Marker, s.hello.Revision}
	e.Restart()
	e.Desire("two", "2")
	s = e.from(from.revision, from.marker)
	frames := s.follow(e.has("one", "two"))
	if again := placeOf(putOf(e, frames, "one"), s.hello); again != one {
		e.Errorf("resumed the place is %+v, was %+v", again, one)
	}
	two := placeOf(putOf(e, frames, "two"), s.hello)
	if one.marker == two.marker || !e.proves(one) || !e.proves(two) {
		e.Errorf("of %+v and %+v is proven: %v, %v", one, two, e.proves(one), e.proves(two))
	}
	if e.proves(place{one.marker, two.revision}) || e.proves(place{two.marker, one.revision}) {
		e.Errorf("places between %+v and %+v are proven", one, two)
	}
	_, err := e.Client().Lineage(e.ctx, make([]string, wire.MaxMarkers)...)
	e.ok(err)
}

// lineageOfRestored: a copy proves what it has.
func lineageOfRestored(e *exam) {
	s := e.open()
	e.Desire("one", "1")
	one := placeOf(putOf(e, s.follow(e.has("one")), "one"), s.hello)
	e.Backup()
	e.walk()
	s = e.open()
	e.Desire("two", "2")
	two := placeOf(putOf(e, s.follow(e.has("one", "two")), "two"), s.hello)
	e.Restore()
	if !e.proves(one) || e.proves(two) {
		e.Errorf("on the copy of %+v and %+v is proven: %v, %v", one, two, e.proves(one), e.proves(two))
	}
}

// refused fails unless an error is an answer of one of some codes, in the form of all of them.
func (e *exam) refused(err error, codes ...int) {
	e.Helper()
	var refusal *RefusedError
	if !errors.As(err, &refusal) {
		if errors.Is(err, io.EOF) {
			err = errors.New("an empty answer")
		}
		e.Errorf("it was answered, with %v, want %d", err, codes)
		return
	}
	if wrong := refusal.malformed(codes...); wrong != "" {
		e.Errorf("%s: %s: %s", refusal.Call, wrong, refusal)
	}
}
