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

// Agent is an agent of a hub's location. Start after Stop starts it again with its stored state.
type Agent interface {
	Start()
	Stop()
}

// agentCase is one requirement on every agent.
type agentCase struct {
	name string
	run  func(*trial)
}

// TestAgent tests an agent. For each case, with makes a hub and one of its agents, which is not
// started, and passes both to test. A case takes minutes of the agent's time, so with should run it in
// a synctest bubble.
func TestAgent(t *testing.T, lacks Lacks, with func(t *testing.T, test func(*testing.T, *Hub, Agent))) {
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

// trial is a running case.
type trial struct {
	*testing.T
	hub   *Hub
	agent Agent
}

// put makes an object with a name and a value desired at the location.
func (e *trial) put(name, value string) {
	uid := "uid-" + name
	object := fmt.Sprintf(`{"apiVersion":"v1","data":{"k":%q},"kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"}}`, value, name)
	e.hub.Put(KeyOf(name), uid, object)
}

func (e *trial) del(name string) { e.hub.Del(KeyOf(name), wire.Deleted) }

// within waits until f returns an empty string. It fails the test with the last result of f.
func (e *trial) within(f func() string) {
	e.Helper()
	for deadline := time.Now().Add(caseTimeout); ; <-time.After(50 * time.Millisecond) {
		wrong := f()
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("after %s: %s; faults of the agent: %q", caseTimeout, wrong, e.hub.Faults())
		}
	}
}

// converged waits until the agent has reported all desired objects as applied, and no other objects.
func (e *trial) converged() {
	e.Helper()
	e.within(func() string {
		h := e.hub
		h.mu.Lock()
		defer h.mu.Unlock()
		content := h.content(h.log.revision)
		for k, f := range content {
			if r := h.reports.all[k]; f.Put != nil && (r.State != wire.Applied || r.Digest != f.Put.Digest || r.UID != f.Put.UID) {
				return fmt.Sprintf("%q is reported as %+v", k, r)
			}
		}
		for k := range h.reports.all {
			if _, desired := content[k]; !desired {
				return fmt.Sprintf("%q is still reported", k)
			}
		}
		return ""
	})
}

// connected waits until the agent has opened more than a number of sessions.
func (e *trial) connected(previous int) {
	e.Helper()
	e.within(func() string {
		if n := e.hub.Calls(route.Desired); n <= previous {
			return fmt.Sprintf("the agent has opened %d sessions", n)
		}
		return ""
	})
}

// followCases are requirements on an agent whose hub works.
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

// agentFollows: an agent applies the objects that a session sends, and reports them.
func agentFollows(e *trial) {
	e.agent.Start()
	defer e.agent.Stop()
	e.connected(0)
	e.put("one", "1")
	e.put("two", "1")
	e.converged()
	e.put("one", "2")
	e.del("two")
	e.converged()
}

// agentBegins: an agent without state compares, and fetches the differences.
func agentBegins(e *trial) {
	for i := range 5 {
		e.put(fmt.Sprint("n", i), "1")
	}
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	if e.hub.Calls(route.Walk) == 0 || e.hub.Calls(route.Fetch) == 0 {
		e.Error("the agent has objects without a request for them")
	}
}

// agentImpersonates: an agent announces with each request that it supports impersonation.
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
	e.converged()
	e.put("one", "2")
	e.converged()
}

// unasked fails the test if a call was made more often than since.
func (e *trial) unasked(call string, since int) {
	e.Helper()
	if n := e.hub.Calls(call); n != since {
		e.Errorf("%s was called %d times without a need", call, n-since)
	}
}

// agentResumes: an agent resumes an interrupted session without a comparison.
func agentResumes(e *trial) {
	e.agent.Start()
	defer e.agent.Stop()
	e.connected(0)
	e.put("one", "1")
	e.converged()
	walks := e.hub.Calls(route.Walk)
	for i := range 3 {
		sessions := e.hub.Calls(route.Desired)
		e.hub.HangUp()
		e.put(fmt.Sprint("n", i), "1")
		e.connected(sessions)
		e.put("one", fmt.Sprint("value-", i))
		e.converged()
	}
	e.unasked(route.Walk, walks)
}

// agentKeeps: an agent resumes from its stored state after a restart.
func agentKeeps(e *trial) {
	e.put("one", "1")
	e.put("two", "1")
	e.agent.Start()
	e.converged()
	e.agent.Stop()
	walks, fetches := e.hub.Calls(route.Walk), e.hub.Calls(route.Fetch)
	e.del("one")
	e.put("three", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	e.unasked(route.Walk, walks)
	e.unasked(route.Fetch, fetches)
}

// agentWalks: if a session cannot be resumed, the agent compares and finds the differences.
func agentWalks(e *trial) {
	for i := range 5 {
		e.put(fmt.Sprint("n", i), "1")
	}
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	walks, fetches := e.hub.Calls(route.Walk), e.hub.Calls(route.Fetch)
	sessions := e.hub.Calls(route.Desired)
	e.hub.Forget()
	e.connected(sessions)
	<-time.After(time.Second) // the hello has shown that the agent has the whole content
	e.put("n1", "2")
	e.converged()
	e.unasked(route.Walk, walks)
	e.unasked(route.Fetch, fetches)

	e.agent.Stop()
	e.put("n2", "2")
	e.del("n3")
	e.hub.Forget()
	e.agent.Start()
	e.converged()
	if e.hub.Calls(route.Walk) == walks || e.hub.Calls(route.Fetch) == fetches {
		e.Error("the agent has objects without a request for them")
	}
}

// agentWalksInPages: a large comparison obeys the limits of each request.
func agentWalksInPages(e *trial) {
	const many = 2200 // so that the agent needs more spans than one request may have
	for i := range many {
		e.put(fmt.Sprintf("n%05d", i), "1")
	}
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	if walks, fetches := e.hub.Calls(route.Walk), e.hub.Calls(route.Fetch); walks < 3 || fetches < 1+many/wire.MaxFetch {
		e.Errorf("%d requests for pages, and %d for the differences", walks, fetches)
	}
}

// agentCompares: an agent compares its reports with those of the hub once after each start of the
// hub, because the hub's log may lack some.
func agentCompares(e *trial) {
	e.put("one", "1")
	e.put("two", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	walks, sessions := e.hub.Calls(route.ReportsWalk), e.hub.Calls(route.Desired)
	e.hub.do(func() { delete(e.hub.reports.all, KeyOf("one")) })
	e.hub.Restart()
	e.converged()
	if e.hub.Calls(route.ReportsWalk) == walks || e.hub.Calls(route.Desired) == sessions {
		e.Error("the agent has not compared its reports")
	}
}

// agentWaitsForProof: from a log that does not continue the known one, an agent applies only new
// objects, and defers changes and removals until the log is accepted.
func agentWaitsForProof(e *trial) {
	e.put("kept", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	copied := e.hub.Revision()
	e.put("lost", "1")
	e.put("kept", "2")
	e.converged()
	edited, _ := e.hub.Report(KeyOf("kept"))
	e.hub.Restore(copied)
	e.put("new", "1")
	marker := responder{e.hub}.hello(e.hub.Revision(), place{}, true).Marker
	e.within(func() string {
		if s := e.hub.AgentStatus(); s.LogIdentity != wire.Unproven || s.Awaits != marker || s.Deferred == 0 {
			return fmt.Sprintf("the status of the agent is %+v, the marker is %q", s, marker)
		}
		if r, ok := e.hub.Report(KeyOf("new")); !ok || r.State != wire.Applied {
			return fmt.Sprintf("the new object is reported as %+v", r)
		}
		return ""
	})
	if r, ok := e.hub.Report(KeyOf("kept")); ok && r.Digest != edited.Digest {
		e.Errorf("an object was changed by a log without proof: %+v", r)
	}
	e.hub.Set(func(s *wire.Settings) { s.Accept = marker })
	e.converged()
	e.within(func() string {
		if s := e.hub.AgentStatus(); s.LogIdentity != wire.Proven || s.Deferred != 0 {
			return fmt.Sprintf("the status of the agent is %+v", s)
		}
		return ""
	})
}

// agentHalts: an agent that the hub halts changes nothing, and reports that it is halted, until the
// hub ends the halt.
func agentHalts(e *trial) {
	e.put("one", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	e.hub.Set(func(s *wire.Settings) { s.Halt = "for a while" })
	e.within(func() string {
		if s := e.hub.AgentStatus(); !strings.Contains(s.Halted, "for a while") {
			return fmt.Sprintf("the status of the agent is %+v", s)
		}
		return ""
	})
	e.put("two", "1")
	<-time.After(time.Minute)
	if r, _ := e.hub.Report(KeyOf("two")); r.State == wire.Applied {
		e.Error("it was applied meanwhile")
	}
	e.hub.Set(func(s *wire.Settings) { s.Halt = "" })
	e.converged()
	e.within(func() string {
		if s := e.hub.AgentStatus(); s.Halted != "" {
			return fmt.Sprintf("the status of the agent is %+v", s)
		}
		return ""
	})
}

// agentAnnounces: an agent sends its status, and makes no calls while nothing changes.
func agentAnnounces(e *trial) {
	e.put("one", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	e.within(func() string {
		if s := e.hub.AgentStatus(); s.Version == "" || s.KubernetesVersion == "" || s.APIsDigest == "" || len(s.APIs) == 0 || s.LogIdentity != wire.Proven {
			return fmt.Sprintf("the status of the agent is %+v", s)
		}
		return ""
	})
	<-time.After(time.Minute)
	before := map[string]int{}
	for _, call := range append(calls, route.Desired) {
		before[call] = e.hub.Calls(call)
	}
	<-time.After(10 * time.Minute)
	for call, n := range before {
		e.unasked(call, n)
	}
	if e.hub.AgentStatus().APIs == nil {
		e.Error("the list of APIs is gone")
	}
}

// refuse returns a handler that answers with a status code.
func refuse(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { refused(code, "no").write(w) }
}

// agentConfirms: an agent confirms the removal of an object when it no longer exists, even if it never
// existed there, and repeats the confirmation until the hub has received it.
func agentConfirms(e *trial) {
	e.agent.Start()
	e.put("one", "1")
	e.put("two", "1")
	e.converged()
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
	e.converged()
}

// agentYields: an agent reports an object that is left to the location no longer as placed, but as
// upsynced, while a space requests it. It does so also after a restart, and if there was no request
// for a while, in which the hub has dropped the report, and the agent did not notice.
func agentYields(e *trial) {
	upsynced := key.Report{Origin: key.Upsynced, Object: key.Object{Space: "s", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "default", Name: "one"}}}.Line()
	e.agent.Start()
	e.put("one", "1")
	e.put("two", "1")
	e.converged()
	e.hub.Set(func(s *wire.Settings) {
		s.Upsync = []wire.Upsync{{Space: "s", Group: "core", Resources: []string{"configmaps"}, Names: []string{"one", "two"}}}
		s.UpsyncObjects, s.UpsyncBytes = 10, 1<<20
	})
	e.hub.Write(wire.Frame{Hold: &wire.Hold{Key: KeyOf("one"), UID: "uid-one", Digest: wire.SumOf([]byte("hold")), Reason: v1alpha1.ReasonUpsynced, Error: "it is requested"}})
	is := func(want ...string) {
		e.Helper()
		e.within(func() string {
			if got := e.hub.Reported(); !slices.Equal(got, want) {
				return fmt.Sprintf("reported are %q, want %q", got, want)
			}
			return ""
		})
	}
	is(KeyOf("two"), upsynced)
	if r, _ := e.hub.Report(upsynced); r.State != wire.Present || len(r.Object) == 0 || strings.Contains(string(r.Object), v1alpha1.Group+"/") {
		e.Errorf("it is reported as %+v: %s", r, r.Object)
	}
	e.agent.Stop()
	sessions := e.hub.Calls(route.Desired)
	e.hub.Restart()
	e.agent.Start()
	e.connected(sessions)
	is(KeyOf("two"), upsynced)
	for _, away := range []bool{true, false} { // without: the agent receives the end of the request together with the next one
		if away {
			e.agent.Stop()
		}
		var requested []wire.Upsync
		e.hub.Set(func(s *wire.Settings) { requested, s.Upsync = s.Upsync, nil })
		e.hub.Set(func(s *wire.Settings) { s.Upsync = requested })
		if away {
			e.agent.Start()
		}
		is(KeyOf("two"), upsynced)
	}
	e.hub.Set(func(s *wire.Settings) { s.Upsync = nil })
	is(KeyOf("two"))
}
