package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/seeds"
	"orrery.dev/orrery/test/support/world"
)

// certificateLife is how long agents' certificates live in TestEnrolment, and slowDetection how long its
// location may be without a session while it is to stay connected: a busy machine stands still for
// longer than a heartbeat.
const certificateLife, slowDetection = 8 * time.Second, time.Minute

// TestEnrolment lets certificates expire while hubs or agents are stopped and after a hub was
// restored, and uses join tokens and credentials without permission.
func TestEnrolment(t *testing.T) {
	t.Parallel()
	w := world.New(t, "--heartbeat", heartbeat.String(), "--disconnected-after", slowDetection.String(),
		"--agent-certificate-lifetime", certificateLife.String())
	e := edgeOf(t, w, env.StartLink(t, w.Hub.URL))
	e.put("kept", "1")
	e.waitFor("kept", "1")
	for _, subtest := range []struct {
		name string
		run  func(*edge)
	}{
		{"renewed", (*edge).renewed}, {"killed", (*edge).killed}, {"tokens", (*edge).joinTokens}, {"hub away", (*edge).hubAway}, {"agent away", (*edge).agentAway},
		{"restored", (*edge).restoredEnrolment}, {"reused", (*edge).reused}, {"revoked", (*edge).revokedAndBack},
	} {
		t.Run(subtest.name, func(t *testing.T) {
			subtest.run(&edge{World: e.World, Site: e.Site, t: t, space: e.space})
		})
	}
	e.Invariants()
}

// ends is when the agent's credential does, as it says.
func (e *edge) ends() time.Time {
	e.t.Helper()
	s, err := agent.ReadStatus(e.Agent.Dir)
	if err != nil {
		e.t.Fatal(err)
	}
	return s.CredentialEnds
}

// awaitRenewal waits until the agent has another credential.
func (e *edge) awaitRenewal() {
	e.t.Helper()
	before := e.ends()
	env.Eventually(e.t, soon, func() error {
		if now := e.ends(); !now.After(before) {
			return fmt.Errorf("the credential ends at %s, as before", now)
		}
		return nil
	})
}

// awaitEnd waits until the agent's credential has ended.
func (e *edge) awaitEnd() {
	e.t.Helper()
	end := e.ends()
	env.Eventually(e.t, soon, func() error {
		if left := time.Until(end); left > 0 {
			return fmt.Errorf("the credential lives for another %s", left)
		}
		return nil
	})
}

// goesOn shows that an edit travels, without anybody having been at the site.
func (e *edge) goesOn(value string) {
	e.t.Helper()
	e.put("kept", value)
	e.waitFor("kept", value)
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven })
}

// renewed: the location stays connected over renewals, and no repair or edit suffers.
func (e *edge) renewed() {
	since := e.connectedSince()
	for i := range 3 {
		e.awaitRenewal()
		e.goesOn(fmt.Sprint("renewed-", i))
		e.tamper("kept")
		e.waitFor("kept", fmt.Sprint("renewed-", i))
	}
	if err := e.stillConnected(since); err != nil {
		e.t.Error(err)
	}
	if strings.Contains(e.Agent.Stderr(), "level=ERROR") {
		e.t.Error("the agent says that something is wrong")
	}
}

// killed: an agent that is killed at whatever step of a renewal comes back by itself, and is
// not taken for two.
func (e *edge) killed() {
	file := filepath.Join(e.Agent.Dir, "credential.json")
	type kept struct{ Certificate, Next string }
	read := func() (now kept) {
		b, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(b, &now)
		}
		if err != nil {
			e.t.Fatal(err)
		}
		return now
	}
	random := seeds.Rand(e.t, 1)
	for round := range 3 {
		for _, step := range []struct {
			name   string
			isTime func(before, now kept) bool
		}{
			{"a file is being written", func(before, now kept) bool { // or has been written, if the poll missed it
				_, err := os.Stat(file + ".new")
				return err == nil || now.Certificate != before.Certificate
			}},
			{"the next one is requested", func(_, now kept) bool { return now.Next != "" }},
			{"the next one is there", func(before, now kept) bool { return now.Certificate != before.Certificate }},
			{"a while after that", nil},
		} {
			before, isTime := read(), step.isTime
			if isTime == nil {
				after := time.Now().Add(time.Duration(random.Int64N(int64(certificateLife))))
				isTime = func(kept, kept) bool { return time.Now().After(after) }
			}
			poll := time.NewTicker(200 * time.Microsecond)
			for end := time.Now().Add(soon); !isTime(before, read()); <-poll.C {
				if time.Now().After(end) {
					e.t.Fatalf("%s: that did not happen", step.name)
				}
			}
			poll.Stop()
			e.Agent.Kill()
			e.Agent.Start()
			e.goesOn(fmt.Sprintf("killed-%d-%s", round, step.name))
		}
	}
	e.enrolled(metav1.ConditionTrue, v1alpha1.ReasonJoined)
}

// joinTokens checks that the hub rejects invalid join tokens with an explanation, and that the
// agent exits.
func (e *edge) joinTokens() {
	for _, name := range []string{"once", "late", "gone", "here"} {
		env.Orrery(e.t, e.Root, "location", "add", name)
	}
	other := env.StartHub(e.t)
	env.Orrery(e.t, other.Kubeconfig, "location", "add", "here")
	tokenOf := func(kubeconfig string, args ...string) wire.Join {
		e.t.Helper()
		join, err := wire.ParseJoin(env.Orrery(e.t, kubeconfig, append([]string{"location", "token", "--token-only"}, args...)...))
		if err != nil {
			e.t.Fatal(err)
		}
		return join
	}
	used, late, gone := tokenOf(e.Root, "once"), tokenOf(e.Root, "late", "--expires", "1s"), tokenOf(e.Root, "gone")
	made := time.Now()
	replaced, foreign := tokenOf(e.Root, "here"), tokenOf(e.Root, "here")
	foreign.Token = tokenOf(other.Kubeconfig, "here").Token
	env.StartAgent(e.t, "once", used.Encode(), e.Cluster.AgentKubeconfig).Stop()
	env.Orrery(e.t, e.Root, "location", "remove", "gone")
	env.Eventually(e.t, soon, func() error { // before that it would be good
		if time.Since(made) < 2*time.Second {
			return errors.New("the token has not expired")
		}
		return nil
	})
	for _, c := range []struct {
		what    string
		join    wire.Join
		message string
	}{
		{"used", used, "used already"}, {"expired", late, "has expired"}, {"of a location that is gone", gone, "not one of this hub"},
		{"replaced", replaced, "not one of this hub"}, {"of another hub", foreign, "not one of this hub"},
	} {
		dir := filepath.Join(e.t.TempDir(), "data")
		out, err := env.Command{Binary: "orrery-agent", Args: []string{
			"--join", c.join.Encode(), "--data-dir", dir, "--kubeconfig", e.Cluster.AgentKubeconfig,
		}}.Try(e.t)
		output := fmt.Sprint(err)
		if strings.Contains(out, "ready") || !strings.Contains(output, "exit status 1") {
			e.t.Errorf("%s join token: the agent continues: %s", c.what, out)
		}
		if !strings.Contains(output, c.message) || !strings.Contains(output, "orrery location token") {
			e.t.Errorf("%s: %s", c.what, output)
		}
	}
	// An agent may be started again with the token that it has used, as a systemd unit does. A
	// rejected token leaves the agent unchanged.
	e.Agent.Stop()
	unknown := foreign
	unknown.Location, unknown.Token = "edge", "orr_j_edge.guess"
	for _, join := range []wire.Join{foreign, unknown} { // of another location, and of its own
		out, err := env.Command{Binary: "orrery-agent", Args: []string{"--join", join.Encode(), "--data-dir", e.Agent.Dir}}.Try(e.t)
		if err == nil {
			e.t.Errorf("the agent continues: %s", out)
		}
	}
	e.Agent.Start()
	e.goesOn("tokens")
	file := filepath.Join(e.t.TempDir(), "join")
	if err := os.WriteFile(file, []byte(world.Through(e.t, e.Token("edge"), e.Link)+"\n"), 0o600); err != nil {
		e.t.Fatal(err)
	}
	for range 2 {
		e.Agent.Stop()
		e.Agent.Start("--join-file", file)
		e.goesOn("file")
	}
}

// hubAway: a hub that is away when certificates end finds all back.
func (e *edge) hubAway() {
	e.Hub.Stop()
	e.Hub.Flags("--disconnected-after", (5 * heartbeat).String()) // which others wait for
	e.awaitEnd()
	e.tamper("kept")
	e.waitFor("kept", "file")
	e.Hub.Start()
	e.space = e.inSpace()
	e.goesOn("hub-away")
}

// agentAway: so does an agent that was away for longer than its certificate lives.
func (e *edge) agentAway() {
	e.Agent.Kill()
	e.awaitEnd()
	e.Agent.Start()
	e.goesOn("agent-away")
	e.Link.Cut()
	e.awaitEnd()
	e.Link.Heal()
	e.goesOn("link-cut")
}

// restoredEnrolment: a hub that was restored from a copy knows the credentials that it
// has issued since.
func (e *edge) restoredEnrolment() {
	older := filepath.Join(e.t.TempDir(), "older")
	e.Hub.Stop()
	copyDir(e.t, e.Hub.Dir, older)
	e.Hub.Start()
	e.space = e.inSpace()
	for range 3 {
		e.awaitRenewal()
	}
	e.Hub.Kill()
	if err := os.RemoveAll(e.Hub.Dir); err != nil {
		e.t.Fatal(err)
	}
	copyDir(e.t, older, e.Hub.Dir)
	e.Hub.Start()
	e.space = e.inSpace()
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && !s.Proven })
	env.Orrery(e.t, e.Root, "location", "accept", "edge")
	e.awaitRenewal()
	e.goesOn("restored")
}

// enrolled is the condition of the location.
func (e *edge) enrolled(status metav1.ConditionStatus, reason string) {
	e.t.Helper()
	env.Eventually(e.t, soon, func() error {
		var l v1alpha1.Location
		out, err := env.Command{Binary: "orrery", Kubeconfig: e.Root, Args: []string{"location", "describe", "edge", "-o", "json"}}.Try(e.t)
		if err == nil {
			err = json.Unmarshal([]byte(out), &l)
		}
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionEnrolled); c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("Enrolled is %+v", c)
		}
		return nil
	})
}

// lockedOut checks that the agent logs why it is locked out. The agent still reverts changes in the
// cluster to value, the last one that it received.
func (e *edge) lockedOut(value, cause string) {
	e.t.Helper()
	env.Eventually(e.t, soon, func() error {
		if !strings.Contains(e.Agent.Stderr(), "level=ERROR") || !strings.Contains(e.Agent.Stderr(), cause) {
			return errors.New("the agent does not log that it is locked out")
		}
		return nil
	})
	e.connected(metav1.ConditionFalse)
	e.put("kept", "not this")
	e.tamper("kept")
	e.waitFor("kept", value)
	e.staysAs("kept", value)
}

// reused checks that the hub detects two agents that use copies of one disk, and revokes the
// credential of both.
func (e *edge) reused() {
	env.Orrery(e.t, e.Root, "location", "add", "thief")
	thief := env.StartAgent(e.t, "thief", world.Through(e.t, e.Token("thief"), e.Link), e.Cluster.AgentKubeconfig)
	thief.Kill()
	e.goesOn("reused") // the last revision that both copies contain
	e.Agent.Stop()
	if err := os.RemoveAll(thief.Dir); err != nil {
		e.t.Fatal(err)
	}
	copyDir(e.t, e.Agent.Dir, thief.Dir)
	e.Agent.Start()
	e.awaitRenewal()
	thief.Start()
	e.enrolled(metav1.ConditionFalse, v1alpha1.ReasonCredentialReused)
	e.lockedOut("reused", "revoked")
	if !strings.Contains(e.Hub.Stderr(), "two agents have it") {
		e.t.Error("the log of the hub does not report two agents with one credential")
	}
	thief.Kill()
	e.Agent.Stop()
	e.Agent.Start("--join", world.Through(e.t, e.Token("edge"), e.Link))
	e.enrolled(metav1.ConditionTrue, v1alpha1.ReasonJoined)
	e.goesOn("joined-again")
}

// revokedAndBack checks that a revocation ends an open session immediately, and that the agent can
// join again.
func (e *edge) revokedAndBack() {
	env.Orrery(e.t, e.Root, "location", "revoke", "edge")
	e.enrolled(metav1.ConditionFalse, v1alpha1.ReasonRevoked)
	e.lockedOut("joined-again", wire.ByeRevoked)
	e.Agent.Stop()
	e.Agent.Start("--join", world.Through(e.t, e.Token("edge"), e.Link))
	e.enrolled(metav1.ConditionTrue, v1alpha1.ReasonJoined)
	e.goesOn("back")
}
