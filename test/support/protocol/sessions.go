package protocol

import (
	"fmt"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// sessionCases are requirements on sessions.
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

// resumes: a session continues where another one ended, with the differences and a mark.
func resumes(e *exam) {
	e.Desire("one", "1")
	e.walk()
	s := e.open()
	if !s.hello.Continuous || !s.hello.Resumed {
		e.Fatalf("the hello is %+v", s.hello)
	}
	if frames := s.follow(e.contains("one")); len(frames) != 1 {
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
		s.follow(e.contains(names...))
		if e.last.Root != s.hello.Root {
			e.Errorf("the mark is %+v, the hello %+v", e.last, s.hello)
		}
		names = append(names, fmt.Sprint("there-", i))
		e.Desire(names[len(names)-1], "1")
		if i%2 == 0 { // else the session is closed before the change arrives
			s.follow(e.contains(names...))
		}
	}
}

// resumeRefused: the hub does not resume a session from a position that its log does not contain.
func resumeRefused(e *exam) {
	e.Desire("one", "1")
	e.walk()
	for name, from := range map[string]place{
		"a marker of another log":     {"FOREIGN", e.last.Revision},
		"a revision without a marker": {"", e.last.Revision},
		"a marker without a revision": {e.last.Marker, 0},
		"a revision that never was":   {e.last.Marker, e.last.Revision + 1000},
	} {
		if s := e.from(from.revision, from.marker); s.hello.Continuous || s.hello.Resumed {
			e.Errorf("%s: the hello is %+v", name, s.hello)
		}
	}
	if s := e.from(0, ""); !s.hello.Continuous || s.hello.Resumed {
		e.Errorf("without a log position the hello is %+v", s.hello)
	}
}

// historyForgotten: an agent whose session cannot be resumed needs a comparison.
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
		e.Errorf("the hello is %+v, a comparison has %+v", s.hello, e.last)
	}
}

// heartbeats: an idle session has pings at the interval of its hello.
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
	// An agent gives up after three intervals, but the machine may be slow.
	if took := time.Since(begun); took > 10*every+caseTimeout/10 {
		e.Errorf("two heartbeats took %s", took)
	}
}

// newestWins: a location has one session.
func newestWins(e *exam) {
	first := e.open()
	second := e.open()
	first.ends(wire.ByeReplaced)
	e.Desire("one", "1")
	second.follow(e.contains("one"))
}

// toSettings reads frames up to settings, and returns these.
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

// settings: each hello has the settings of the location, and the hub sends them when they change.
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
		e.Errorf("those of a comparison are %+v", got)
	}
}

// accepts: the agent receives the acceptance of the log by an operator.
func accepts(e *exam) {
	s := e.open()
	e.Accept(s.hello.Marker)
	if got := s.toSettings(); got.Accept != s.hello.Marker {
		e.Errorf("settings are %+v", got)
	}
}

// purges: during a purge the content is empty, which a comparison finds. A session never sends the
// removals.
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

// tokenReplaced: the session of an agent whose token was replaced ends with a bye, and its later requests
// are refused.
func tokenReplaced(e *exam) {
	e.Desire("one", "1")
	e.walk()
	s, old := e.open(), e.Client()
	e.NewToken()
	s.ends(wire.ByeRevoked)
	_, err := old.Open(e.ctx, e.last.Revision, e.last.Marker)
	e.refused(err, http.StatusUnauthorized)
	for _, call := range calls {
		_, err := old.Exchange(e.ctx, call)
		e.refused(err, http.StatusUnauthorized)
	}
	if s := e.open(); !s.hello.Resumed {
		e.Errorf("with the new token the hello is %+v", s.hello)
	}
}

// locationGone: when the location is removed, the session ends without removals of objects.
func locationGone(e *exam) {
	e.Desire("one", "1")
	e.walk()
	s := e.open()
	e.Remove()
	s.ends(wire.ByeRemoved)
	_, err := e.Client().Open(e.ctx, e.last.Revision, e.last.Marker)
	e.refused(err, http.StatusUnauthorized, http.StatusNotFound)
	for _, call := range calls {
		_, err := e.Client().Exchange(e.ctx, call)
		e.refused(err, http.StatusUnauthorized, http.StatusNotFound)
	}
}

// calls are the calls besides a session.
var calls = []string{route.Walk, route.Fetch, route.LogIdentity, route.Namespaces, route.AgentStatus, route.Reports, route.ReportsWalk, route.ReportsFetch}
