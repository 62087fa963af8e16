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

// Lacks names the cases that one of several does not keep to, and why: what stands in
// for a hub or an agent need not do all that the real one does, but it says so.
type Lacks map[string]string

// patience bounds each case.
const patience = 5 * time.Minute

// States is a hub with one location, and how a test brings about what the protocol is
// about. Nothing is desired at the location at first. Its methods fail the test when they
// fail, and return when a request that begins then sees what they did.
type States interface {
	// Client speaks to the hub as the location's agent.
	Client() *Client
	// Desire has the location desire the object of a name, with a value.
	Desire(name, value string)
	// Protect has it desire an object with the policy that it is only created.
	Protect(name string)
	// Await has it desire an object whose deletion waits until it is gone from the location.
	Await(name string)
	// Hold makes an object that is desired one of which the location keeps what it has.
	Hold(name string)
	// Conflict has the location desire another space's object in place of this one.
	Conflict(name string)
	// Impersonate has the location admit everything with the rights of a ServiceAccount,
	// "" for those of its agent; Admit, everything or nothing.
	Impersonate(account string)
	Admit(everything bool)
	// Delete deletes the object, as its user does, and Unassign ends that it is desired.
	Delete(name string)
	Unassign(name string)
	// Pause has the agent change nothing, or work again; Prune sets how many percent may
	// be removed at once; Accept accepts the log of a marker; Purge has everything removed.
	Pause(paused bool)
	Prune(percent int)
	Accept(marker string)
	Purge(purged bool)
	// Upsync has the space ask for the objects of some names that are born at the location,
	// and for no others; Bound sets how many of them may come back. Associate is Desire with the
	// ConfigMaps that the object owns.
	Upsync(names ...string)
	Bound(objects int)
	Associate(name string)
	// Forget leaves no history from which a session could be resumed.
	Forget()
	// Restart starts the hub anew on its log. Backup copies the log, and Restore starts the
	// hub anew on the copy.
	Restart()
	Backup()
	Restore()
	// NewToken replaces the token, which Client knows from then on. Remove removes the location.
	NewToken()
	Remove()
}

// KeyOf is the key of the object of a name.
func KeyOf(name string) string { return "s/core/configmaps/default/" + name }

// Before are the cases that a hub of the version before lacks.
func Before() Lacks {
	lacks := Lacks{}
	for _, c := range enrolmentCases() {
		lacks[c.name] = "a hub of the version before gives no credentials"
	}
	return lacks
}

// hubCase is one thing that every hub does.
type hubCase struct {
	name string
	run  func(*exam)
}

// TestHub judges a hub. with makes one for each case, and hands it to judge.
func TestHub(t *testing.T, lacks Lacks, with func(t *testing.T, judge func(*testing.T, States))) {
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
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				c.run(&exam{T: t, States: s, ctx: ctx, have: Holding{}})
			})
		})
	}
}

// declared checks that what is lacking is of the suite, and says so.
func declared(t *testing.T, lacks Lacks, names []string) {
	t.Helper()
	for name, why := range lacks {
		if !slices.Contains(names, name) || why == "" {
			t.Errorf("%q is said to be lacking, since %q: the suite has %q", name, why, names)
		}
		t.Logf("lacks %s: %s", name, why)
	}
}

// exam is a case under way.
type exam struct {
	*testing.T
	States
	ctx context.Context //nolint:containedctx // that of a test
	// capabilities are what the agent announces.
	capabilities string
	// have is what the agent has.
	have Holding
	// at is where its last session was.
	at wire.Mark
}

// Client speaks to the hub as an agent that announces what it can do.
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

// walk makes what the agent has equal to the hub's.
func (e *exam) walk() (pages int) {
	e.Helper()
	pages, from, err := e.Client().Walk(e.ctx, e.have, func(wire.Frame) {})
	e.ok(err)
	e.at = from
	return pages
}

// session is an open session of an exam.
type session struct {
	e      *exam
	stream *Stream
	hello  wire.Hello
}

// open opens a session from where the agent is, and from opens one from anywhere.
func (e *exam) open() *session {
	e.Helper()
	return e.from(e.at.Revision, e.at.Marker)
}

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

// next is the next frame but pings.
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

// follow takes frames over up to a mark after which the agent's content is as desired,
// and checks all marks on the way. It returns what was taken over.
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
		if f.Mark.Revision < s.e.at.Revision || f.Mark.Marker == "" {
			s.e.Fatalf("a mark of %+v after one of %+v", f.Mark, s.e.at)
		}
		if s.e.at = *f.Mark; until() {
			return frames
		}
	}
}

// has says that the agent has exactly the objects of some names.
func (e *exam) has(names ...string) func() bool {
	var keys []string
	for _, name := range names {
		keys = append(keys, KeyOf(name))
	}
	slices.Sort(keys)
	return func() bool { return slices.Equal(e.have.Keys(), keys) }
}

// mustHave fails unless the agent has exactly the objects of some names.
func (e *exam) mustHave(names ...string) {
	e.Helper()
	if !e.has(names...)() {
		e.Fatalf("the agent has %q, want %q", e.have.Keys(), names)
	}
}

// always accepts any mark.
func always() bool { return true }

// ends reads up to the end of a session, which is to be a bye for a reason. Nothing is
// removed on the way.
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
