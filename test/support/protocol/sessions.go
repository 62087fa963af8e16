package protocol

import (
	"fmt"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// sessionCases are about how sessions begin, go on and end.
func sessionCases() []hubCase {
	return []hubCase{
		{"Resume", resumes},
		{"ResumeRefused", resumeRefused},
		{"HistoryForgotten", historyForgotten},
		{"Heartbeat", heartbeats},
		{"NewestWins", newestWins},
		{"Settings", settings},
		{"Accept", accepts},
		{"Purge", purges},
		{"TokenReplaced", tokenReplaced},
		{"LocationGone", locationGone},
	}
}

// resumes: a session goes on where another ended, with what differs and a mark.
func resumes(e *exam) {
	e.Desire("one", "1")
	e.walk()
	s := e.open()
	if !s.hello.Continuous || !s.hello.Resumed {
		e.Fatalf("the hello is %+v", s.hello)
	}
	if frames := s.follow(e.has("one")); len(frames) != 1 {
		e.Errorf("without a difference a session has %+v", frames)
	}
	names := []string{"one"}
	for i := range 5 {
		s.stream.Close()
		names = append(names, fmt.Sprint("away-", i))
		e.Desire(names[len(names)-1], "1")
		e.Delete(names[0])
		names = names[1:]
		s = e.open()
		if !s.hello.Continuous || !s.hello.Resumed {
			e.Fatalf("the hello is %+v", s.hello)
		}
		s.follow(e.has(names...))
		if e.at.Root != s.hello.Root {
			e.Errorf("the mark is %+v, the hello %+v", e.at, s.hello)
		}
		names = append(names, fmt.Sprint("there-", i))
		e.Desire(names[len(names)-1], "1")
		if i%2 == 0 { // or else it is cut before that arrives
			s.follow(e.has(names...))
		}
	}
}

// resumeRefused: what an agent remembers of another log is not gone on with.
func resumeRefused(e *exam) {
	e.Desire("one", "1")
	e.walk()
	for name, from := range map[string]place{
		"a marker of another log":     {"FOREIGN", e.at.Revision},
		"a revision without a marker": {"", e.at.Revision},
		"a marker without a revision": {e.at.Marker, 0},
		"a revision that never was":   {e.at.Marker, e.at.Revision + 1000},
	} {
		if s := e.from(from.revision, from.marker); s.hello.Continuous || s.hello.Resumed {
			e.Errorf("%s: the hello is %+v", name, s.hello)
		}
	}
	if s := e.from(0, ""); !s.hello.Continuous || s.hello.Resumed {
		e.Errorf("who remembers nothing has nothing to lose: %+v", s.hello)
	}
}

// historyForgotten: a session that can't be resumed begins with a walk.
func historyForgotten(e *exam) {
	e.Desire("one", "1")
	e.walk()
	e.Desire("two", "1")
	e.Forget()
	s := e.open()
	if !s.hello.Continuous || s.hello.Resumed {
		e.Errorf("the hello is %+v", s.hello)
	}
	e.walk()
	e.mustHave("one", "two")
	if e.have.Root() != s.hello.Root {
		e.Errorf("the hello is %+v, a walk has %+v", s.hello, e.at)
	}
}

// heartbeats: a quiet session says that it is alive as often as its hello says.
func heartbeats(e *exam) {
	s := e.open()
	every := time.Duration(s.hello.Settings.HeartbeatSeconds) * time.Second
	begun := time.Now()
	for range 2 {
		f, err := s.stream.Next()
		e.ok(err)
		if f.Ping == nil {
			e.Errorf("a quiet session has %+v", f)
		}
	}
	// An agent gives up after three; a machine may be slow.
	if took := time.Since(begun); took > 10*every+patience/10 {
		e.Errorf("two heartbeats took %s", took)
	}
}

// newestWins: a location has one session.
func newestWins(e *exam) {
	first := e.open()
	second := e.open()
	first.ends(wire.ByeReplaced)
	e.Desire("one", "1")
	second.follow(e.has("one"))
}

// toSettings reads up to settings.
func (s *session) toSettings() wire.Settings {
	s.e.Helper()
	for {
		f := s.next()
		if f.Bye != nil {
			s.e.Fatalf("instead of settings came %+v", f.Bye)
		}
		if f.Settings != nil {
			return *f.Settings
		}
	}
}

// settings: what the hub says of the location is in each hello, and sent when it changes.
func settings(e *exam) {
	s := e.open()
	before := s.hello.Settings
	if before.Halt != "" || before.Purge || before.PruneMaxPercent <= 0 {
		e.Errorf("settings are %+v", before)
	}
	e.Pause(true)
	if got := s.toSettings(); got.Halt == "" || got.HeartbeatSeconds != before.HeartbeatSeconds {
		e.Errorf("paused they are %+v", got)
	}
	if again := e.open(); again.hello.Settings.Halt == "" {
		e.Errorf("the next hello has %+v", again.hello.Settings)
	}
	s = e.open()
	e.Pause(false)
	if got := s.toSettings(); !got.Equal(before) {
		e.Errorf("they are %+v, were %+v", got, before)
	}
	e.Prune(7)
	if got := s.toSettings(); got.PruneMaxPercent != 7 {
		e.Errorf("they are %+v", got)
	}
	frames, err := e.Client().walkPage(e.ctx, wire.Walk{}, []wire.Span{{}})
	e.ok(err)
	if got := frames[0].Hello.Settings; got.PruneMaxPercent != 7 {
		e.Errorf("those of a walk are %+v", got)
	}
}

// accepts: an operator's word on the log gets to the agent.
func accepts(e *exam) {
	s := e.open()
	e.Accept(s.hello.Marker)
	if got := s.toSettings(); got.Accept != s.hello.Marker {
		e.Errorf("settings are %+v", got)
	}
}

// purges: that everything is to go is a content without anything, which a walk finds. A
// session never says so by deletions.
func purges(e *exam) {
	e.Desire("one", "1")
	e.walk()
	s := e.open()
	e.Purge(true)
	s.ends(wire.ByeExpired)
	s = e.open()
	if h := s.hello; !h.Settings.Purge || h.Resumed || !h.Continuous || h.Count != 0 || !h.Root.IsZero() {
		e.Fatalf("the hello is %+v", h)
	}
	e.walk()
	e.mustHave()
	e.Purge(false)
	s.ends(wire.ByeExpired)
	e.walk()
	e.mustHave("one")
}

// tokenReplaced: who has a token that was replaced hears so, and is nobody from then on.
func tokenReplaced(e *exam) {
	e.Desire("one", "1")
	e.walk()
	s, old := e.open(), e.Client()
	e.NewToken()
	s.ends(wire.ByeRevoked)
	_, err := old.Open(e.ctx, e.at.Revision, e.at.Marker)
	e.refused(err, http.StatusUnauthorized)
	for _, call := range calls {
		_, err := old.Exchange(e.ctx, call)
		e.refused(err, http.StatusUnauthorized)
	}
	if s := e.open(); !s.hello.Resumed {
		e.Errorf("with the new token the hello is %+v", s.hello)
	}
}

// locationGone: the end of a location is not the end of what it has.
func locationGone(e *exam) {
	e.Desire("one", "1")
	e.walk()
	s := e.open()
	e.Remove()
	s.ends(wire.ByeRemoved)
	_, err := e.Client().Open(e.ctx, e.at.Revision, e.at.Marker)
	e.refused(err, http.StatusUnauthorized, http.StatusNotFound)
	for _, call := range calls {
		_, err := e.Client().Exchange(e.ctx, call)
		e.refused(err, http.StatusUnauthorized, http.StatusNotFound)
	}
}

// calls are those beside a session.
var calls = []string{route.Walk, route.Fetch, route.Lineage, route.AgentStatus, route.Reports, route.ReportsWalk, route.ReportsFetch}
