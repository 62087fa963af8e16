package protocol

import (
	"errors"
	"io"

	"orrery.dev/orrery/internal/protocol/wire"
)

// logCases are requirements on the log identity.
func logCases() []hubCase {
	return []hubCase{
		{"Restart", restarts},
		{"Restore", restores},
		{"Lineage", provesPositions},
		{"LineageOfRestored", provesRestored},
	}
}

// restarts: a session can be resumed after a restart of the hub, which adds a marker.
func restarts(e *exam) {
	e.Desire("one", "1")
	e.walk()
	s, before := e.open(), e.last
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
	again.follow(e.contains("one", "two"))
	if e.last.Marker != again.hello.Marker || e.last.Revision <= before.Revision {
		e.Errorf("the mark is %+v, the hello %+v", e.last, again.hello)
	}
}

// restores: the hello distinguishes an older copy of the log from the log.
func restores(e *exam) {
	e.Desire("one", "1")
	e.walk()
	copied := e.last
	e.Backup()
	e.Desire("two", "2")
	e.walk()
	e.Restore()
	if s := e.open(); s.hello.Continuous || s.hello.Resumed || s.hello.Count != 1 {
		e.Errorf("from a position that the copy lacks, the hello is %+v", s.hello)
	}
	if s := e.from(copied.Revision, copied.Marker); !s.hello.Continuous {
		e.Errorf("from a position that the copy has, the hello is %+v", s.hello)
	}
	frames, err := e.Client().walkPage(e.ctx, wire.Walk{After: e.last.Revision, Marker: e.last.Marker}, []wire.Span{{}})
	e.ok(err)
	if h := frames[0].Hello; h.Continuous {
		e.Errorf("the hello of a comparison is %+v", h)
	}
}

// placeOf returns the log position of a put.
func placeOf(p *wire.Put, hello wire.Hello) place {
	if p.Marker == "" {
		return place{hello.Marker, p.Revision}
	}
	return place{p.Marker, p.Revision}
}

// proves requests whether the log contains a log position.
func (e *exam) proves(p place) bool {
	e.Helper()
	answer, err := e.Client().LogIdentity(e.ctx, "FOREIGN", p.marker)
	e.ok(err)
	if len(answer.Spans["FOREIGN"]) > 0 || answer.Marker == "" || answer.Revision == 0 {
		e.Errorf("the hub answers %+v", answer)
	}
	for _, span := range answer.Spans[p.marker] {
		if span.Contains(p.revision) {
			return true
		}
	}
	return false
}

// provesPositions: each put has a log position, which the hub proves, also after restarts.
func provesPositions(e *exam) {
	s := e.open()
	e.Desire("one", "1")
	one := placeOf(putOf(e, s.follow(e.contains("one")), "one"), s.hello)
	from := place{s.hello.Marker, s.hello.Revision}
	e.Restart()
	e.Desire("two", "2")
	s = e.from(from.revision, from.marker)
	frames := s.follow(e.contains("one", "two"))
	if again := placeOf(putOf(e, frames, "one"), s.hello); again != one {
		e.Errorf("after a resume the log position is %+v, was %+v", again, one)
	}
	two := placeOf(putOf(e, frames, "two"), s.hello)
	if one.marker == two.marker || !e.proves(one) || !e.proves(two) {
		e.Errorf("of %+v and %+v is proven: %v, %v", one, two, e.proves(one), e.proves(two))
	}
	if e.proves(place{one.marker, two.revision}) || e.proves(place{two.marker, one.revision}) {
		e.Errorf("log positions between %+v and %+v are proven", one, two)
	}
	_, err := e.Client().LogIdentity(e.ctx, make([]string, wire.MaxMarkers)...)
	e.ok(err)
}

// provesRestored: a restored copy proves only the log positions that it has.
func provesRestored(e *exam) {
	s := e.open()
	e.Desire("one", "1")
	one := placeOf(putOf(e, s.follow(e.contains("one")), "one"), s.hello)
	e.Backup()
	e.walk()
	s = e.open()
	e.Desire("two", "2")
	two := placeOf(putOf(e, s.follow(e.contains("one", "two")), "two"), s.hello)
	e.Restore()
	if !e.proves(one) || e.proves(two) {
		e.Errorf("on the copy of %+v and %+v is proven: %v, %v", one, two, e.proves(one), e.proves(two))
	}
}

// refused fails the test unless an error is a well-formed RefusedError with one of the codes.
func (e *exam) refused(err error, codes ...int) {
	e.Helper()
	var refusal *RefusedError
	if !errors.As(err, &refusal) {
		if errors.Is(err, io.EOF) {
			err = errors.New("an empty answer")
		}
		e.Errorf("not refused: %v, want %d", err, codes)
		return
	}
	if wrong := refusal.malformed(codes...); wrong != "" {
		e.Errorf("%s: %s: %s", refusal.Call, wrong, refusal)
	}
}
