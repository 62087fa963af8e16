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

// Enrolling are the States of a hub that issues credentials to agents, such as that of Client.
type Enrolling interface {
	States
	// JoinToken makes a join token for the location, which replaces the previous one.
	JoinToken() wire.Join
	// Revoke revokes all credentials of the agent.
	Revoke()
}

// enrolmentCases are requirements on the enrolment and on the renewal of credentials. A fake of a hub
// of the previous version lacks them.
func enrolmentCases() []hubCase {
	return []hubCase{{"Enrolment", enrols}, {"Renewal", renews}, {"Revocation", revokes}}
}

// enrolling is the exam of a hub that issues credentials.
type enrolling struct {
	*exam
	hub Enrolling
}

func (e *exam) enrolling() enrolling {
	e.Helper()
	states, ok := e.States.(Enrolling)
	if !ok {
		e.Fatal("the hub issues no credentials, and does not declare that")
	}
	return enrolling{e, states}
}

// mustOpen opens a session with a client, which must succeed.
func (e enrolling) mustOpen(c *Client, err error) *Stream {
	e.Helper()
	e.ok(err)
	e.Cleanup(c.Close)
	s, err := c.Open(e.ctx, 0, "")
	e.ok(err)
	e.Cleanup(s.Close)
	return s
}

// mustRefuse checks the reason for which an agent is refused.
func (e enrolling) mustRefuse(err error, want wire.Refusal) {
	e.Helper()
	e.exam.refused(err, http.StatusUnauthorized)
	var refused *RefusedError
	var status metav1.Status
	if !errors.As(err, &refused) || json.Unmarshal(refused.Body, &status) != nil {
		return // refused has reported it
	}
	if status.Details == nil || len(status.Details.Causes) != 1 || string(status.Details.Causes[0].Type) != string(want) {
		e.Errorf("it is refused as %+v, want %s", status, want)
	}
}

// opens begins a session with a client and returns the error.
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

// enrols: a join token is exchanged once, for a certificate. A client can authenticate by the
// certificate, or by a bearer token that it derives from it.
func enrols(x *exam) {
	e := x.enrolling()
	join, former := e.hub.JoinToken(), e.Client()
	e.mustOpen(former, nil) // valid until the token is used
	k, request, err := NewKey()
	e.ok(err)
	id, err := EnrolWith(e.ctx, join, k, request)
	e.ok(err)
	e.mustOpen(id.Client())
	e.mustOpen(id.BearerClient())
	if id.Issued.RenewAfter() <= 0 {
		e.Errorf("the renewal is due after %s", id.Issued.RenewAfter())
	}
	again, err := EnrolWith(e.ctx, join, k, request) // the response was lost
	e.ok(err)
	e.mustOpen(again.Client())
	e.mustRefuse(e.opens(former, nil), wire.RefusedSuperseded)
	_, err = Enrol(e.ctx, join)
	e.mustRefuse(err, wire.RefusedJoinUsed)
	guessed := join
	guessed.Token = join.Token[:len(join.Token)-4] + "AAAA"
	_, err = Enrol(e.ctx, guessed)
	e.mustRefuse(err, wire.RefusedJoin)
	for _, token := range []string{"", "garbage", "orr_j_", "orr_j_nowhere.secret", "orr_b_a.x.y", strings.Repeat("x", 4096)} {
		guessed.Token = token
		_, err := Enrol(e.ctx, guessed)
		e.mustRefuse(err, wire.RefusedJoin)
	}
	e.mustRefuse(e.opens(TokenClient(join)), wire.RefusedJoin)
	nothing := join
	nothing.Token = ""
	e.mustRefuse(e.opens(TokenClient(nothing)), wire.RefusedNone)

	fresh := e.hub.JoinToken()
	for _, c := range []struct {
		name    string
		request any
	}{
		{"nothing", struct{}{}}, {"no request", wire.Enrol{Request: []byte("x")}}, {"too large", wire.Enrol{Request: make([]byte, wire.MaxEnrol)}}, {"no object", "x"},
	} {
		e.Log(c.name)
		_, err := issue(e.ctx, fresh, route.Enrol, c.request)
		e.exam.refused(err, http.StatusBadRequest, http.StatusRequestEntityTooLarge)
	}
	_, err = Enrol(e.ctx, fresh) // the refused requests have not used the token
	e.ok(err)
}

// renews: an agent with the key of its certificate can renew it, and repeat the renewal until it
// receives the new one. The old certificate is refused when the new one was used.
func renews(x *exam) {
	e := x.enrolling()
	first, err := Enrol(e.ctx, e.hub.JoinToken())
	e.ok(err)
	open := e.mustOpen(first.Client())
	k, request, err := NewKey()
	e.ok(err)
	second, err := first.RenewWith(e.ctx, k, request)
	e.ok(err)
	again, err := first.RenewWith(e.ctx, k, request) // the response was lost
	e.ok(err)
	e.mustOpen(first.Client()) // valid until the new certificate is used
	e.mustOpen(again.BearerClient())
	e.mustOpen(second.Client())
	for f, err := open.Next(); f.Bye == nil; f, err = open.Next() {
		e.ok(err)
	}
	e.mustRefuse(e.opens(first.Client()), wire.RefusedSpent)
	_, err = first.Renew(e.ctx)
	e.mustRefuse(err, wire.RefusedSpent)
	third, err := second.Renew(e.ctx)
	e.ok(err)
	if _, err := third.Renew(e.ctx); err != nil { // which uses the certificate
		e.Error(err)
	}
	e.mustRefuse(e.opens(second.Client()), wire.RefusedSpent)

	path := route.Agent(key.Location(third.Join.Location)).Path(route.Renew)
	k, request, err = NewKey()
	e.ok(err)
	stolen, err := wire.NewRenewal(third.Certificate, request, k) // by a client with the certificate, but without its key
	e.ok(err)
	_, err = issue(e.ctx, third.Join, path, stolen)
	e.mustRefuse(err, wire.RefusedForeign)
	good, err := wire.NewRenewal(third.Certificate, request, third.Key)
	e.ok(err)
	_, err = issue(e.ctx, third.Join, route.Agent("elsewhere").Path(route.Renew), good)
	e.mustRefuse(err, wire.RefusedForeign)
	_, err = issue(e.ctx, third.Join, path, "x")
	e.exam.refused(err, http.StatusBadRequest)
	e.mustOpen(third.Client())
}

// revokes: all credentials are refused at once, until an agent joins with a new token.
func revokes(x *exam) {
	e := x.enrolling()
	join := e.hub.JoinToken()
	s, former := e.open(), e.Client()
	e.hub.Revoke()
	s.ends(wire.ByeRevoked)
	e.mustRefuse(e.opens(former, nil), wire.RefusedRevoked)
	_, err := former.Identity.Renew(e.ctx)
	e.mustRefuse(err, wire.RefusedRevoked)
	_, err = Enrol(e.ctx, join)
	e.mustRefuse(err, wire.RefusedJoin)
	id, err := Enrol(e.ctx, e.hub.JoinToken())
	e.ok(err)
	e.mustOpen(id.Client())
	e.mustRefuse(e.opens(former, nil), wire.RefusedSuperseded)
	e.Remove()
	e.mustRefuse(e.opens(id.Client()), wire.RefusedForeign)
	_, err = id.Renew(e.ctx)
	e.mustRefuse(err, wire.RefusedForeign)
}
