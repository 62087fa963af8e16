package protocol

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Enrolling are States of a hub that gives agents credentials. Client's is one of them.
type Enrolling interface {
	States
	// JoinToken makes a join token for the location, which replaces the one before.
	JoinToken() wire.Join
	// Revoke ends that anything is good that the agent was given.
	Revoke()
}

// enrolmentCases are about how an agent gets its credential, and keeps it good. What
// stands in for a hub of the version before lacks them.
func enrolmentCases() []hubCase {
	return []hubCase{{"Enrolment", enrols}, {"Renewal", renews}, {"Revocation", revokes}}
}

// enrolling is the exam of a hub that gives credentials.
type enrolling struct {
	*exam
	hub Enrolling
}

func (e *exam) enrolling() enrolling {
	e.Helper()
	states, ok := e.States.(Enrolling)
	if !ok {
		e.Fatal("the hub gives no credentials, and does not say so")
	}
	return enrolling{e, states}
}

// knows says that a client is known, by opening a session, which it returns.
func (e enrolling) knows(c *Client, err error) *Stream {
	e.Helper()
	e.ok(err)
	e.Cleanup(c.Close)
	s, err := c.Open(e.ctx, 0, "")
	e.ok(err)
	e.Cleanup(s.Close)
	return s
}

// told checks why an agent is refused.
func (e enrolling) told(err error, want wire.Refusal) {
	e.Helper()
	e.exam.refused(err, http.StatusUnauthorized)
	var refused *RefusedError
	var status metav1.Status
	if !errors.As(err, &refused) || json.Unmarshal(refused.Body, &status) != nil {
		return // as was said
	}
	if status.Details == nil || len(status.Details.Causes) != 1 || string(status.Details.Causes[0].Type) != string(want) {
		e.Errorf("it is refused as %+v, want %s", status, want)
	}
}

// opens is how the hub answers a client that opens a session.
func (e enrolling) opens(c *Client, err error) error {
	e.Helper()
	e.ok(err)
	e.Cleanup(c.Close)
	s, err := c.Open(e.ctx, 0, "")
	if err == nil {
		s.Close()
	}
	return err
}

// enrols: a join token is traded once, for a certificate or, where that does not arrive,
// the bearer that stands for it.
func enrols(x *exam) {
	e := x.enrolling()
	join, former := e.hub.JoinToken(), e.Client()
	e.knows(former, nil) // until the token is used
	k, request, err := NewKey()
	e.ok(err)
	id, err := EnrolWith(e.ctx, join, k, request)
	e.ok(err)
	e.knows(id.Client())
	e.knows(id.BearerClient())
	if id.Issued.RenewAfter() <= 0 {
		e.Errorf("it is to be renewed after %s", id.Issued.RenewAfter())
	}
	again, err := EnrolWith(e.ctx, join, k, request) // the answer was lost
	e.ok(err)
	e.knows(again.Client())
	e.told(e.opens(former, nil), wire.RefusedSuperseded)
	_, err = Enrol(e.ctx, join)
	e.told(err, wire.RefusedJoinUsed)
	guessed := join
	guessed.Token = join.Token[:len(join.Token)-4] + "AAAA"
	_, err = Enrol(e.ctx, guessed)
	e.told(err, wire.RefusedJoin)
	for _, token := range []string{"", "garbage", "orr_j_", "orr_j_nowhere.secret", "orr_b_a.x.y", strings.Repeat("x", 4096)} {
		guessed.Token = token
		_, err := Enrol(e.ctx, guessed)
		e.told(err, wire.RefusedJoin)
	}
	e.told(e.opens(TokenClient(join)), wire.RefusedJoin)
	nothing := join
	nothing.Token = ""
	e.told(e.opens(TokenClient(nothing)), wire.RefusedNone)

	fresh := e.hub.JoinToken()
	for _, c := range []struct {
		what  string
		asked any
	}{
		{"nothing", struct{}{}}, {"no request", wire.Enrol{Request: []byte("x")}}, {"too large", wire.Enrol{Request: make([]byte, wire.MaxEnrol)}}, {"no object", "x"},
	} {
		e.Log(c.what)
		_, err := issue(e.ctx, fresh, route.Enrol, c.asked)
		e.exam.refused(err, http.StatusBadRequest, http.StatusRequestEntityTooLarge)
	}
	_, err = Enrol(e.ctx, fresh) // none of this has used it
	e.ok(err)
}

// renews: who has the key gets the next, for as often as it takes; what was spent is
// worth nothing.
func renews(x *exam) {
	e := x.enrolling()
	first, err := Enrol(e.ctx, e.hub.JoinToken())
	e.ok(err)
	open := e.knows(first.Client())
	k, request, err := NewKey()
	e.ok(err)
	second, err := first.RenewWith(e.ctx, k, request)
	e.ok(err)
	again, err := first.RenewWith(e.ctx, k, request) // the answer was lost
	e.ok(err)
	e.knows(first.Client()) // which is good until the new one is used
	e.knows(again.BearerClient())
	e.knows(second.Client())
	for f, err := open.Next(); f.Bye == nil; f, err = open.Next() {
		e.ok(err)
	}
	e.told(e.opens(first.Client()), wire.RefusedSpent)
	_, err = first.Renew(e.ctx)
	e.told(err, wire.RefusedSpent)
	third, err := second.Renew(e.ctx)
	e.ok(err)
	if _, err := third.Renew(e.ctx); err != nil { // which uses it
		e.Error(err)
	}
	e.told(e.opens(second.Client()), wire.RefusedSpent)

	path := route.Agent(key.Location(third.Join.Location)).Path(route.Renew)
	k, request, err = NewKey()
	e.ok(err)
	stolen, err := wire.NewRenewal(third.Certificate, request, k) // by who has the certificate, and not its key
	e.ok(err)
	_, err = issue(e.ctx, third.Join, path, stolen)
	e.told(err, wire.RefusedForeign)
	good, err := wire.NewRenewal(third.Certificate, request, third.Key)
	e.ok(err)
	_, err = issue(e.ctx, third.Join, route.Agent("elsewhere").Path(route.Renew), good)
	e.told(err, wire.RefusedForeign)
	_, err = issue(e.ctx, third.Join, path, "x")
	e.exam.refused(err, http.StatusBadRequest)
	e.knows(third.Client())
}

// revokes: what was given is worth nothing at once, until somebody joins anew.
func revokes(x *exam) {
	e := x.enrolling()
	join := e.hub.JoinToken()
	s, former := e.open(), e.Client()
	e.hub.Revoke()
	s.ends(wire.ByeRevoked)
	e.told(e.opens(former, nil), wire.RefusedRevoked)
	_, err := former.Identity.Renew(e.ctx)
	e.told(err, wire.RefusedRevoked)
	_, err = Enrol(e.ctx, join)
	e.told(err, wire.RefusedJoin)
	id, err := Enrol(e.ctx, e.hub.JoinToken())
	e.ok(err)
	e.knows(id.Client())
	e.told(e.opens(former, nil), wire.RefusedSuperseded)
	e.Remove()
	e.told(e.opens(id.Client()), wire.RefusedForeign)
	_, err = id.Renew(e.ctx)
	e.told(err, wire.RefusedForeign)
}
