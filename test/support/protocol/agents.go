package protocol

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Agent is an agent of a hub's location. Stop ends it, and Start starts it again with the
// state that it kept.
type Agent interface {
	Start()
	Stop()
}

// agentCase is one thing that every agent does.
type agentCase struct {
	name string
	run  func(*trial)
}

// TestAgent judges an agent. with makes a hub for each case and one of its agents, which
// has not started, and hands both to judge. Cases take minutes of an agent's time, so it
// is to be that of a synctest bubble.
func TestAgent(t *testing.T, lacks Lacks, with func(t *testing.T, judge func(*testing.T, *Hub, Agent))) {
	t.Helper()
	cases := slices.Concat(followCases(), hubFaultCases())
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
			with(t, func(t *testing.T, h *Hub, a Agent) {
				c.run(&trial{T: t, hub: h, agent: a})
				for _, fault := range h.Faults() {
					t.Errorf("the agent: %s", fault)
				}
			})
		})
	}
}

// trial is a case under way.
type trial struct {
	*testing.T
	hub   *Hub
	agent Agent
}

// put has the location desire an object of a name, with a value.
func (e *trial) put(name, value string) {
	uid := "uid-" + name
	object := fmt.Sprintf(`{"apiVersion":"v1","data":{"k":%q},"kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"}}`, value, name)
	e.hub.Put(KeyOf(name), uid, object)
}

func (e *trial) del(name string) { e.hub.Del(KeyOf(name), wire.Deleted) }

// within waits until f says that nothing is wrong.
func (e *trial) within(f func() string) {
	e.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		wrong := f()
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("after %s: %s; the agent is at fault: %q", patience, wrong, e.hub.Faults())
		}
	}
}

// settled waits until the agent has reported that it has applied what is desired, and
// nothing of anything else.
func (e *trial) settled() {
	e.Helper()
	e.within(func() string {
		h := e.hub
		h.mu.Lock()
		defer h.mu.Unlock()
		content := h.content(h.revision)
		for k, f := range content {
			if r := h.reports[k]; f.Put != nil && (r.State != wire.Applied || r.Digest != f.Put.Digest || r.UID != f.Put.UID) {
				return fmt.Sprintf("%q is reported as %+v", k, r)
			}
		}
		for k := range h.reports {
			if _, desired := content[k]; !desired {
				return fmt.Sprintf("%q is still reported", k)
			}
		}
		return ""
	})
}

// connected waits for another session than those before.
func (e *trial) connected(than int) {
	e.Helper()
	e.within(func() string {
		if n := e.hub.Asked(route.Desired); n <= than {
			return fmt.Sprintf("the agent has opened %d sessions", n)
		}
		return ""
	})
}

// followCases are about what an agent does with a sound hub.
func followCases() []agentCase {
	return []agentCase{
		{"Follows", agentFollows},
		{"Begins", agentBegins},
		{"Resumes", agentResumes},
		{"KeepsWhatItHas", agentKeeps},
		{"Walks", agentWalks},
		{"WalksInPages", agentWalksInPages},
		{"Compares", agentCompares},
		{"AnotherLog", agentWaitsForProof},
		{"Halts", agentHalts},
		{"Announces", agentAnnounces},
		{"Impersonates", agentImpersonates},
		{"Confirms", agentConfirms},
		{"Yields", agentYields},
		{"Looks", agentLooks},
		{"ReportsFirst", agentReportsFirst},
	}
}

// agentFollows: an agent applies what a session sends, and reports it.
func agentFollows(e *trial) {
	e.agent.Start()
	defer e.agent.Stop()
	e.connected(0)
	e.put("one", "1")
	e.put("two", "1")
	e.settled()
	e.put("one", "2")
	e.del("two")
	e.settled()
}

// agentBegins: an agent without state compares, and fetches what differs.
func agentBegins(e *trial) {
	for i := range 5 {
		e.put(fmt.Sprint("n", i), "1")
	}
	e.agent.Start()
	defer e.agent.Stop()
	e.settled()
	if e.hub.Asked(route.Walk) == 0 || e.hub.Asked(route.Fetch) == 0 {
		e.Error("the agent has what it never asked for")
	}
}

// agentImpersonates: an agent says with each request that it obeys who is to act for an
// object.
func agentImpersonates(e *trial) {
	e.hub.Instead(func(_ http.ResponseWriter, r *http.Request, call string) bool {
		if !wire.Capable(r.Header, wire.Impersonates) {
			e.Errorf("%s announces %q", call, r.Header.Values(wire.CapabilitiesHeader))
		}
		return false
	})
	e.put("one", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.settled()
	e.put("one", "2")
	e.settled()
}

// unasked fails if a call was made more often than since.
func (e *trial) unasked(call string, since int) {
	e.Helper()
	if n := e.hub.Asked(call); n != since {
		e.Errorf("%s was called %d times, for nothing", call, n-since)
	}
}

// agentResumes: a session that was cut is resumed, and nothing is compared.
func agentResumes(e *trial) {
	e.agent.Start()
	defer e.agent.Stop()
	e.connected(0)
	e.put("one", "1")
	e.settled()
	walks := e.hub.Asked(route.Walk)
	for i := range 3 {
		sessions := e.hub.Asked(route.Desired)
		e.hub.HangUp()
		e.put(fmt.Sprint("n", i), "1")
		e.connected(sessions)
		e.put("one", fmt.Sprint("value-", i))
		e.settled()
	}
	e.unasked(route.Walk, walks)
}

// agentKeeps: an agent that restarts resumes from the state that it kept.
func agentKeeps(e *trial) {
	e.put("one", "1")
	e.put("two", "1")
	e.agent.Start()
	e.settled()
	e.agent.Stop()
	walks, fetches := e.hub.Asked(route.Walk), e.hub.Asked(route.Fetch)
	e.del("one")
	e.put("three", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.settled()
	e.unasked(route.Walk, walks)
	e.unasked(route.Fetch, fetches)
}

// agentWalks: if a session can't be resumed, the agent finds out what differs.
func agentWalks(e *trial) {
	for i := range 5 {
		e.put(fmt.Sprint("n", i), "1")
	}
	e.agent.Start()
	defer e.agent.Stop()
	e.settled()
	walks, fetches := e.hub.Asked(route.Walk), e.hub.Asked(route.Fetch)
	sessions := e.hub.Asked(route.Desired)
	e.hub.Forget()
	e.connected(sessions)
	<-time.After(time.Second) // it has heard that it has all there is
	e.put("n1", "2")
	e.settled()
	e.unasked(route.Walk, walks)
	e.unasked(route.Fetch, fetches)

	e.agent.Stop()
	e.put("n2", "2")
	e.del("n3")
	e.hub.Forget()
	e.agent.Start()
	e.settled()
	if e.hub.Asked(route.Walk) == walks || e.hub.Asked(route.Fetch) == fetches {
		e.Error("the agent has what it never asked for")
	}
}

// agentWalksInPages: a large walk keeps to the bounds of each request.
func agentWalksInPages(e *trial) {
	const many = 2200 // so that there are more spans to ask for than one request may have
	for i := range many {
		e.put(fmt.Sprintf("n%05d", i), "1")
	}
	e.agent.Start()
	defer e.agent.Stop()
	e.settled()
	if walks, fetches := e.hub.Asked(route.Walk), e.hub.Asked(route.Fetch); walks < 3 || fetches < 1+many/wire.MaxFetch {
		e.Errorf("%d requests for pages, and %d for what differs", walks, fetches)
	}
}

// agentCompares: an agent compares its reports with the hub's once after each start of the
// hub, since the hub's log may lack some.
func agentCompares(e *trial) {
	e.put("one", "1")
	e.put("two", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.settled()
	walks, sessions := e.hub.Asked(route.ReportsWalk), e.hub.Asked(route.Desired)
	e.hub.do(func() { delete(e.hub.reports, KeyOf("one")) })
	e.hub.Restart()
	e.settled()
	if e.hub.Asked(route.ReportsWalk) == walks || e.hub.Asked(route.Desired) == sessions {
		e.Error("the agent has not compared its reports")
	}
}

// agentWaitsForProof: from a log that does not continue the one it knows, an agent takes
// new objects only; changes and removals wait until the log is accepted.
func agentWaitsForProof(e *trial) {
	e.put("kept", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.settled()
	copied := e.hub.Revision()
	e.put("lost", "1")
	e.put("kept", "2")
	e.settled()
	edited, _ := e.hub.Report(KeyOf("kept"))
	e.hub.Restore(copied)
	e.put("new", "1")
	marker := e.hub.hello(e.hub.Revision(), place{}, true).Marker
	e.within(func() string {
		if s := e.hub.Told(); s.Lineage != wire.Unproven || s.Awaits != marker || s.Deferred == 0 {
			return fmt.Sprintf("the agent says %+v, the marker is %q", s, marker)
		}
		if r, ok := e.hub.Report(KeyOf("new")); !ok || r.State != wire.Applied {
			return fmt.Sprintf("what is new is reported as %+v", r)
		}
		return ""
	})
	if r, ok := e.hub.Report(KeyOf("kept")); ok && r.Digest != edited.Digest {
		e.Errorf("what is there was changed by a log without proof: %+v", r)
	}
	e.hub.Set(func(s *wire.Settings) { s.Accept = marker })
	e.settled()
	e.within(func() string {
		if s := e.hub.Told(); s.Lineage != wire.Proven || s.Deferred != 0 {
			return fmt.Sprintf("the agent says %+v", s)
		}
		return ""
	})
}

// agentHalts: an agent that the hub halts changes nothing and says so, until it may go on.
func agentHalts(e *trial) {
	e.put("one", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.settled()
	e.hub.Set(func(s *wire.Settings) { s.Halt = "for a while" })
	e.within(func() string {
		if s := e.hub.Told(); !strings.Contains(s.Halted, "for a while") {
			return fmt.Sprintf("the agent says %+v", s)
		}
		return ""
	})
	e.put("two", "1")
	<-time.After(time.Minute)
	if r, _ := e.hub.Report(KeyOf("two")); r.State == wire.Applied {
		e.Error("it was applied meanwhile")
	}
	e.hub.Set(func(s *wire.Settings) { s.Halt = "" })
	e.settled()
	e.within(func() string {
		if s := e.hub.Told(); s.Halted != "" {
			return fmt.Sprintf("the agent says %+v", s)
		}
		return ""
	})
}

// agentAnnounces: an agent sends its status, and nothing while nothing changes.
func agentAnnounces(e *trial) {
	e.put("one", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.settled()
	e.within(func() string {
		if s := e.hub.Told(); s.Version == "" || s.KubernetesVersion == "" || s.APIsDigest == "" || len(s.APIs) == 0 || s.Lineage != wire.Proven {
			return fmt.Sprintf("the agent says %+v", s)
		}
		return ""
	})
	<-time.After(time.Minute)
	before := map[string]int{}
	for _, call := range append(calls, route.Desired) {
		before[call] = e.hub.Asked(call)
	}
	<-time.After(10 * time.Minute)
	for call, n := range before {
		e.unasked(call, n)
	}
	if e.hub.Told().APIs == nil {
		e.Error("the list of APIs is gone")
	}
}

// refuse answers with a code.
func refuse(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { refused(code, "no").write(w) }
}

// agentConfirms: of what is to be gone the agent says so, once nothing of it is there, also if
// it never had it, and until the hub has heard.
func agentConfirms(e *trial) {
	e.agent.Start()
	e.put("one", "1")
	e.put("two", "1")
	e.settled()
	for _, name := range []string{"one", "never"} {
		e.hub.Write(wire.Frame{Gone: &wire.Gone{Key: KeyOf(name), UID: "uid-" + name, Digest: wire.SumOf([]byte("gone")), APIVersion: "v1", Kind: "ConfigMap"}})
	}
	for _, name := range []string{"one", "never"} {
		e.within(func() string {
			if r, _ := e.hub.Report(KeyOf(name)); r.State != wire.Removed || r.UID != "uid-"+name {
				return fmt.Sprintf("%q is reported as %+v", name, r)
			}
			return ""
		})
		e.del(name)
	}
	e.settled()
}

// agentYields: what is left to the location is not reported as placed any more, but as what it
// is there, as long as it is asked for; also by an agent that starts again, or has not heard that
// nobody asked for a while, in which the hub has forgotten it.
func agentYields(e *trial) {
	born := key.Report{Origin: key.Born, Object: key.Object{Space: "s", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "default", Name: "one"}}}.Line()
	e.agent.Start()
	e.put("one", "1")
	e.put("two", "1")
	e.settled()
	e.hub.Set(func(s *wire.Settings) {
		s.Upsync = []wire.Upsync{{Space: "s", Group: "core", Resources: []string{"configmaps"}, Names: []string{"one", "two"}}}
		s.UpsyncObjects, s.UpsyncBytes = 10, 1<<20
	})
	e.hub.Write(wire.Frame{Hold: &wire.Hold{Key: KeyOf("one"), UID: "uid-one", Digest: wire.SumOf([]byte("hold")), Reason: v1alpha1.ReasonUpsynced, Error: "it is asked for"}})
	is := func(want ...string) {
		e.Helper()
		e.within(func() string {
			if got := e.hub.Reported(); !slices.Equal(got, want) {
				return fmt.Sprintf("reported are %q, want %q", got, want)
			}
			return ""
		})
	}
	is(KeyOf("two"), born)
	if r, _ := e.hub.Report(born); r.State != wire.Present || len(r.Object) == 0 || strings.Contains(string(r.Object), v1alpha1.Group+"/") {
		e.Errorf("it is reported as %+v: %s", r, r.Object)
	}
	e.agent.Stop()
	sessions := e.hub.Asked(route.Desired)
	e.hub.Restart()
	e.agent.Start()
	e.connected(sessions)
	is(KeyOf("two"), born)
	for _, away := range []bool{true, false} { // or hears of the end of it together with what comes after it
		if away {
			e.agent.Stop()
		}
		var asked []wire.Upsync
		e.hub.Set(func(s *wire.Settings) { asked, s.Upsync = s.Upsync, nil })
		e.hub.Set(func(s *wire.Settings) { s.Upsync = asked })
		if away {
			e.agent.Start()
		}
		is(KeyOf("two"), born)
	}
	e.hub.Set(func(s *wire.Settings) { s.Upsync = nil })
	is(KeyOf("two"))
}
