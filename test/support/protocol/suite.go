package protocol

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/wire"
)

// Lacks has the names of cases that an implementation does not meet, each with the reason. A fake hub or
// agent need not meet all cases, but it must declare those.
type Lacks map[string]string

// caseTimeout is the timeout of each case.
const caseTimeout = 5 * time.Minute

// States is a hub with one location, with methods that change its state. At first no object is desired.
// A method fails the test on an error, and returns when new requests see its effect.
type States interface {
	// Client returns a client that is the location's agent.
	Client() *Client
	// Desire makes the object with a name desired, with a value.
	Desire(name, value string)
	// Protect makes an object desired with the policy CreateOnly.
	Protect(name string)
	// Await makes an object desired whose deletion waits for a confirmation of the location.
	Await(name string)
	// Hold makes a desired object one that the location must not change.
	Hold(name string)
	// Conflict makes an object desired that conflicts with one of another space.
	Conflict(name string)
	// Impersonate makes the location admit all objects with the rights of a ServiceAccount, or of
	// its agent if account is empty. Admit makes it admit all objects or none.
	Impersonate(account string)
	Admit(everything bool)
	// Delete deletes the object, as a user does. Unassign ends that it is desired, by policy.
	Delete(name string)
	Unassign(name string)
	// Pause halts or resumes the agent. Prune sets the percentage of objects that may be removed at
	// once. Accept accepts the log of a marker. Purge starts or ends the removal of all objects.
	Pause(paused bool)
	Prune(percent int)
	Accept(marker string)
	Purge(purged bool)
	// Upsync requests the upsync of the objects with some names, and of no others. Bound sets the
	// maximum number of upsynced objects. Associate makes an object desired whose owned ConfigMaps are
	// requested.
	Upsync(names ...string)
	Bound(objects int)
	Associate(name string)
	// Forget drops the history, so that no session can be resumed.
	Forget()
	// Restart restarts the hub. Backup copies its log, and Restore restarts the hub with the copy.
	Restart()
	Backup()
	Restore()
	// NewToken replaces the agent's token; Client uses the new one. Remove removes the location.
	NewToken()
	Remove()
}

// KeyOf returns the key of the object with a name.
func KeyOf(name string) string { return "s/core/configmaps/default/" + name }

// Before returns the cases that a hub of the previous version lacks.
func Before() Lacks {
	lacks := Lacks{}
	for _, c := range enrolmentCases() {
		lacks[c.name] = "a hub of the previous version issues no credentials"
	}
	return lacks
}

// hubCase is one requirement on every hub.
type hubCase struct {
	name string
	run  func(*exam)
}

// TestHub tests a hub. with makes a hub for each case, and passes it to test.
func TestHub(t *testing.T, lacks Lacks, with func(t *testing.T, test func(*testing.T, States))) {
	t.Helper()
	cases := slices.Concat(contentCases(), sessionCases(), logCases(), callCases(), seenCases(), enrolmentCases())
	names := make([]string, len(cases))
	for i, c := range cases {
		names[i] = c.name
	}
	declared(t, lacks, names)
	for _, c := range cases {
		if lacks[c.name] != "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			with(t, func(t *testing.T, s States) {
				ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
				defer cancel()
				c.run(&exam{T: t, States: s, ctx: ctx, have: Holding{}})
			})
		})
	}
}

// declared checks that lacks names cases of the suite, each with a reason, and logs them.
func declared(t *testing.T, lacks Lacks, names []string) {
	t.Helper()
	for name, reason := range lacks {
		if !slices.Contains(names, name) || reason == "" {
			t.Errorf("lacks has %q with the reason %q: the suite has %q", name, reason, names)
		}
		t.Logf("lacks %s: %s", name, reason)
	}
}

// exam is a running case.
type exam struct {
	*testing.T
	States
	ctx context.Context //nolint:containedctx // that of a test
	// capabilities are those that the agent announces.
	capabilities string
	// have is the content of the agent.
	have Holding
	// last is the last mark that the agent received.
	last wire.Mark
}

// Client returns a client that announces the capabilities.
func (e *exam) Client() *Client {
	client := e.States.Client()
	client.Capabilities = e.capabilities
	return client
}

// ok fails the test with an error.
func (e *exam) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// walk makes the agent's content equal to that of the hub by a comparison.
func (e *exam) walk() (pages int) {
	e.Helper()
	pages, from, err := e.Client().Walk(e.ctx, e.have, func(wire.Frame) {})
	e.ok(err)
	e.last = from
	return pages
}

// session is an open session of an exam.
type session struct {
	e      *exam
	stream *Stream
	hello  wire.Hello
}

// open opens a session from the last mark of the agent.
func (e *exam) open() *session {
	e.Helper()
	return e.from(e.last.Revision, e.last.Marker)
}

// from opens a session from a log position.
func (e *exam) from(after int64, marker string) *session {
	e.Helper()
	stream, err := e.Client().Open(e.ctx, after, marker)
	e.ok(err)
	e.Cleanup(stream.Close)
	s := &session{e: e, stream: stream}
	f := s.next()
	if f.Hello == nil {
		e.Fatalf("a session begins with %+v", f)
	}
	if s.hello = *f.Hello; s.hello.UID == "" || s.hello.Marker == "" || s.hello.Revision <= 0 || s.hello.Settings.HeartbeatSeconds < 1 {
		e.Fatalf("the hello is %+v", s.hello)
	}
	return s
}

// next returns the next frame that is no ping.
func (s *session) next() wire.Frame {
	s.e.Helper()
	for {
		f, err := s.stream.Next()
		if err != nil {
			s.e.Fatalf("the session ended: %v", err)
		}
		if f.Ping == nil {
			return f
		}
	}
}

// follow applies frames up to a mark at which until returns true, and checks all marks. It returns the
// applied frames.
func (s *session) follow(until func() bool) (frames []wire.Frame) {
	s.e.Helper()
	for {
		f := s.next()
		if f.Settings == nil {
			frames = append(frames, f)
		}
		if f.Bye != nil || f.Hello != nil {
			s.e.Fatalf("the session has %+v", f)
		}
		s.e.ok(s.e.have.Apply(f))
		if f.Mark == nil {
			continue
		}
		if f.Mark.Revision < s.e.last.Revision || f.Mark.Marker == "" {
			s.e.Fatalf("a mark of %+v after one of %+v", f.Mark, s.e.last)
		}
		if s.e.last = *f.Mark; until() {
			return frames
		}
	}
}

// contains returns a function that reports whether the agent has exactly the objects with some names.
func (e *exam) contains(names ...string) func() bool {
	var keys []string
	for _, name := range names {
		keys = append(keys, KeyOf(name))
	}
	slices.Sort(keys)
	return func() bool { return slices.Equal(e.have.Keys(), keys) }
}

// mustHave fails the test unless the agent has exactly the objects with some names.
func (e *exam) mustHave(names ...string) {
	e.Helper()
	if !e.contains(names...)() {
		e.Fatalf("the agent has %q, want %q", e.have.Keys(), names)
	}
}

// always is a condition for follow that any mark meets.
func always() bool { return true }

// ends reads frames up to the end of a session, which must be a bye with a reason, without removals.
func (s *session) ends(reason string) {
	s.e.Helper()
	for {
		f := s.next()
		if f.Del != nil {
			s.e.Fatalf("the end of the session removes %+v", f.Del)
		}
		if f.Bye == nil {
			continue
		}
		if f.Bye.Reason != reason {
			s.e.Errorf("bye is %+v, want %s", f.Bye, reason)
		}
		if f, err := s.stream.Next(); !errors.Is(err, io.EOF) {
			s.e.Errorf("after its bye the session goes on with %+v, %v", f, err)
		}
		return
	}
}
