package hub_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// testAgent speaks the protocol as one location, with the hub that it names.
type testAgent struct {
	*protocol.Client
	r        *running
	location key.Location
}

// join makes a join token for a location, and returns an agent with its credential.
func (r *running) join(l key.Location) *testAgent {
	r.t.Helper()
	var err error
	a := &testAgent{r: r, location: l}
	if a.Client, err = protocol.NewClient(r.enrol(l)); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(a.Close)
	return a
}

// enrol makes a join token for a location.
func (r *running) enrol(l key.Location) (join wire.Join) {
	r.t.Helper()
	if err := tries(func() (err error) { join, err = r.Enrol(r.t.Context(), l); return err }); err != nil {
		r.t.Fatal(err)
	}
	return join
}

// now is the client of the hub that runs now.
func (a *testAgent) now() *protocol.Client {
	c := *a.Client
	c.Join.Hub = a.r.URL
	return &c
}

// raw posts nothing to a path below those of all agents, and returns the code of the answer.
func (a *testAgent) raw(path string) (code int) {
	a.r.t.Helper()
	if err := tries(func() error {
		req, err := a.now().New(a.r.t.Context(), http.MethodPost, "", http.NoBody)
		if err == nil {
			req.URL, err = req.URL.Parse(a.r.URL + string(route.Agents) + path)
		}
		if err != nil {
			return err
		}
		resp, err := a.HTTP.Do(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		if code = resp.StatusCode; err == nil && isLate(code, body) {
			err = &protocol.RefusedError{Call: path, Code: code, Body: body}
		}
		return errors.Join(err, resp.Body.Close())
	}); err != nil {
		a.r.t.Fatal(err)
	}
	return code
}

// report reports as the agent.
func (a *testAgent) report(lines ...wire.ReportLine) wire.ReportsAnswer {
	a.r.t.Helper()
	var answer wire.ReportsAnswer
	if err := tries(func() (err error) { answer, err = a.now().Report(a.r.t.Context(), lines...); return err }); err != nil {
		a.r.t.Fatal(err)
	}
	return answer
}

// tell sends what an agent says of itself.
func (a *testAgent) tell(s wire.AgentStatus) wire.StatusAnswer {
	a.r.t.Helper()
	var answer wire.StatusAnswer
	if err := tries(func() (err error) { answer, err = a.now().Tell(a.r.t.Context(), s); return err }); err != nil {
		a.r.t.Fatal(err)
	}
	return answer
}

// walk makes a holding equal to the hub's, and returns how many pages it took and
// the revision to go on from.
func (a *testAgent) walk(have holding) (pages int, from wire.Mark) {
	a.r.t.Helper()
	if err := tries(func() (err error) {
		pages, from, err = a.now().Walk(a.r.t.Context(), protocol.Holding(have), func(wire.Frame) {})
		return err
	}); err != nil {
		a.r.t.Fatal(err)
	}
	return pages, from
}

// fetch posts lines of a fetch request, and returns the frames of the answer.
func (a *testAgent) fetch(lines ...any) (frames []wire.Frame) {
	a.r.t.Helper()
	if err := tries(func() (err error) { frames, err = a.now().Exchange(a.r.t.Context(), route.Fetch, lines...); return err }); err != nil {
		a.r.t.Fatal(err)
	}
	return frames
}

// stream is an open desired stream.
type stream struct {
	*protocol.Stream
	t testing.TB
}

// open opens the desired stream.
func (a *testAgent) open(after int64, marker string) *stream {
	a.r.t.Helper()
	var s *protocol.Stream
	if err := tries(func() (err error) { s, err = a.now().Open(a.r.t.Context(), after, marker); return err }); err != nil {
		a.r.t.Fatalf("open the stream of %q: %v", a.location, err)
	}
	a.r.t.Cleanup(s.Close)
	return &stream{Stream: s, t: a.r.t}
}

func (s *stream) close() { s.Close() }

// next returns the next frame that is not a ping; ok is false when the stream has ended.
func (s *stream) next() (f wire.Frame, ok bool) {
	s.t.Helper()
	late := time.AfterFunc(timeout, s.Close)
	defer late.Stop()
	for {
		f, err := s.Next()
		if err != nil && !late.Stop() {
			s.t.Fatal("no frame came")
		}
		if err != nil || f.Ping == nil {
			return f, err == nil
		}
	}
}

// holding is what an agent has: the leaf of each key.
type holding protocol.Holding

func (h holding) root() wire.Sum { return protocol.Holding(h).Root() }

// take does what a frame says, and checks what a mark says.
func (h holding) take(t testing.TB, f wire.Frame) {
	t.Helper()
	if err := protocol.Holding(h).Apply(f); err != nil {
		t.Fatal(err)
	}
}

// causes applies frames up to a mark at or above a revision, checks the root and the count of every mark
// on the way, and lists the removals as "KEY CAUSE".
func (h holding) causes(s *stream, rev int64) (mark wire.Mark, causes []string) {
	s.t.Helper()
	for {
		f, ok := s.next()
		if !ok {
			s.t.Fatal("the stream ended")
		}
		h.take(s.t, f)
		if f.Del != nil {
			causes = append(causes, f.Del.Key+" "+string(f.Del.Cause))
		}
		if f.Mark != nil && f.Mark.Revision >= rev {
			return *f.Mark, causes
		}
	}
}
