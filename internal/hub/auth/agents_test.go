package auth

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// enrolmentsFixture contains Enrolments over a table without a log: these tests write nothing.
type enrolmentsFixture struct {
	*Enrolments
	t     *testing.T
	now   time.Time
	ca    *enroll.Authority
	key   *ecdsa.PrivateKey
	keyID string
	// writer changes the table, as another hub would, and committed is called by waits for earlier
	// writes.
	writer    *table.Writer
	committed func()
}

const life = time.Hour

func newEnrolmentsFixture(t *testing.T, record enroll.Record) *enrolmentsFixture {
	t.Helper()
	d := &enrolmentsFixture{t: t, now: time.Now()}
	clock := func() time.Time { return d.now }
	var err error
	if d.ca, err = enroll.LoadOrCreate(t.TempDir(), clock); err != nil {
		t.Fatal(err)
	}
	if d.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, d.key)
	if err != nil {
		t.Fatal(err)
	}
	if _, d.keyID, err = enroll.KeyOf(request); err != nil {
		t.Fatal(err)
	}
	if record.Issued.Number > 0 {
		record.Issued.Key, record.Used.Key = d.keyID, d.keyID
	}
	moves := NewMoves()
	tbl := table.New(table.Config{Observer: moves})
	d.writer, d.committed = tbl, func() {}
	tbl.Reset(7, []table.Update{
		{Key: key.Location("edge").Key(), Value: []byte(`{"metadata":{"name":"edge","uid":"u"}}`), CreateRev: 3, ModRev: 3},
		{Key: key.Enrolment("edge"), Value: record.Encode(), CreateRev: 4, ModRev: 5},
	})
	d.Enrolments = NewEnrolments(EnrolmentsConfig{
		Authority: d.ca, Table: tbl.Table, Moves: moves, Life: life, Late: 10 * life, Logger: slog.New(slog.DiscardHandler), Now: clock,
		Committed: func(context.Context) error { d.committed(); return nil },
	})
	return d
}

// certificate returns a certificate for the agent of a location.
func (d *enrolmentsFixture) certificate(l key.Location, uid string) *x509.Certificate {
	d.t.Helper()
	der, err := d.ca.Agent(enroll.Credential{Location: l, UID: uid, Number: 1, Joined: 1, Key: d.keyID}, &d.key.PublicKey, life)
	if err != nil {
		d.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		d.t.Fatal(err)
	}
	return cert
}

// bearer returns a certificate as a bearer token.
func (d *enrolmentsFixture) bearer(cert *x509.Certificate, k *ecdsa.PrivateKey) string {
	d.t.Helper()
	token, err := wire.NewBearer("edge", cert.Raw, k)
	if err != nil {
		d.t.Fatal(err)
	}
	return token
}

func requestWith(ctx context.Context, cert *x509.Certificate, token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if cert != nil {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r.WithContext(withConditions(ctx))
}

var issuedOnce = enroll.Record{Location: "u", Joined: 1, Issued: enroll.Mark{Number: 1}, Used: enroll.Mark{Number: 1}}

// TestAgentsAreKnown: agents are authenticated by a certificate, or by the bearer token for it, and
// not by anything that others could derive from what they see.
func TestAgentsAreKnown(t *testing.T) {
	d := newEnrolmentsFixture(t, issuedOnce)
	good := d.certificate("edge", "u")
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := d.ca.Client("orrery:location:edge", "orrery:locations")
	if err != nil {
		t.Fatal(err)
	}
	person, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	foreign := newEnrolmentsFixture(t, issuedOnce)
	for what, c := range map[string]struct {
		cert  *x509.Certificate
		token string
		want  wire.Refusal
		nobody,
		known bool
	}{
		"certificate":                        {good, "", "", false, true},
		"bearer":                             {nil, d.bearer(good, d.key), "", false, true},
		"both":                               {good, d.bearer(good, d.key), "", false, true},
		"a bearer behind another's":          {&x509.Certificate{}, d.bearer(good, d.key), "", false, true},
		"nothing":                            {nil, "", "", true, false},
		"another's token":                    {nil, "orr_t_1.secret", "", true, false},
		"OIDC":                               {nil, "eyJhbGciOi.eyJpc3Mi.sig", "", true, false},
		"a bearer of who has not the key":    {nil, d.bearer(good, other), wire.RefusedForeign, false, false},
		"another hub's":                      {foreign.certificate("edge", "u"), "", wire.RefusedForeign, false, false},
		"another hub's bearer":               {nil, d.bearer(foreign.certificate("edge", "u"), foreign.key), wire.RefusedForeign, false, false},
		"of a location that was made before": {d.certificate("edge", "v"), "", wire.RefusedForeign, false, false},
		"of a location that is gone":         {d.certificate("gone", "u"), "", wire.RefusedForeign, false, false},
		"a person's that claims to be one":   {person.Leaf, "", wire.RefusedForeign, false, false},
		"a join token":                       {nil, "orr_j_edge.secret", wire.RefusedJoin, false, false},
		"a token of a former version":        {nil, "edge.secret", wire.RefusedJoin, false, false},
	} {
		r := requestWith(t.Context(), c.cert, c.token)
		response, renew, ok, err := d.authenticate(r)
		switch {
		case ok != c.known || renew || c.nobody != (err == nil && !ok):
			t.Errorf("%s: %v, %v, %v", what, ok, renew, err)
		case c.known && (response.User.GetName() != "orrery:location:edge" || len(ConditionsOf(r.Context())) != 2 || len(response.User.GetExtra()) > 0):
			t.Errorf("%s: %+v rests on %+v", what, response.User, ConditionsOf(r.Context()))
		case c.want != "" && refusalOf(err).cause != c.want:
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}

// TestAgentsAndClocks: by the hub's clock a credential can have expired, but is never too new.
func TestAgentsAndClocks(t *testing.T) {
	d := newEnrolmentsFixture(t, issuedOnce)
	cert, begin := d.certificate("edge", "u"), d.now
	for _, c := range []struct {
		after       time.Duration
		renew, good bool
	}{
		{0, false, true}, {life / 2, false, true}, {life * 3 / 4, true, true}, {life - time.Second, true, true},
		{life, false, false}, {1000 * 24 * time.Hour, false, false}, {-1000 * 24 * time.Hour, false, true}, {0, false, true},
	} {
		d.now = begin.Truncate(time.Second).Add(c.after)
		_, renew, ok, err := d.authenticate(requestWith(t.Context(), cert, ""))
		if ok != c.good || renew != c.renew || !ok && refusalOf(err).cause != wire.RefusedExpired {
			t.Errorf("after %s: %v, renew %v, %v", c.after, ok, renew, err)
		}
	}
}

// TestConditionsOfAgents: the streams of an agent last while its credential is valid.
func TestConditionsOfAgents(t *testing.T) {
	d := newEnrolmentsFixture(t, issuedOnce)
	r := requestWith(t.Context(), d.certificate("edge", "u"), "")
	if _, _, ok, err := d.authenticate(r); !ok || err != nil {
		t.Fatal(err)
	}
	record := issuedOnce
	record.Issued.Key, record.Used.Key = d.keyID, d.keyID
	c := enroll.Credential{Location: "edge", UID: "u", Number: 1, Joined: 1, Key: d.keyID}
	next, renewed, err := record.Renew(c, "another")
	if err != nil {
		t.Fatal(err)
	}
	token, tokened := record.WithJoin("edge", d.now.Add(time.Hour))
	_, rejoined, err := tokened.Trade("edge", token, "k", d.now)
	if err != nil {
		t.Fatal(err)
	}
	byKey := map[string]table.Condition{}
	for _, p := range ConditionsOf(r.Context()) {
		byKey[p.Key] = p
	}
	row := func(r enroll.Record) *table.Row {
		return &table.Row{Entry: table.NewEntry(key.Enrolment("edge"), r.Encode(), 4, 9)}
	}
	for what, c := range map[string]struct {
		row  *table.Row
		want bool
	}{
		"as it was": {row(record), true}, "renewed": {row(renewed), true}, "the next is used": {row(renewed.Use(next)), false},
		"a token was made": {row(tokened), true}, "joined anew": {row(rejoined), false},
		"revoked": {row(record.Revoke(enroll.Revocation{Message: "x"})), false}, "garbage": {&table.Row{Entry: table.NewEntry("e/edge", []byte("{"), 4, 9)}, false},
	} {
		if got := byKey[key.Enrolment("edge")].IsMet(c.row); got != c.want {
			t.Errorf("%s: holds %v", what, got)
		}
	}
	location := func(uid string) *table.Row {
		return &table.Row{Entry: table.NewEntry(key.Location("edge").Key(), []byte(`{"metadata":{"name":"edge","uid":"`+uid+`"}}`), 4, 9)}
	}
	if isMet := byKey[key.Location("edge").Key()].IsMet; !isMet(location("u")) || isMet(location("v")) || isMet(nil) {
		t.Error("it does not rest on its location")
	}
}

// store sets another enrolment record of the location in the table.
func (d *enrolmentsFixture) store(rev int64, record enroll.Record) {
	d.t.Helper()
	if err := d.writer.Apply(rev, []table.Update{{Key: key.Enrolment("edge"), Value: record.Encode(), CreateRev: 4, ModRev: rev}}); err != nil {
		d.t.Fatal(err)
	}
}

// TestSpentAtAnotherHub: a request that was sent before a credential was renewed may arrive at
// another hub than the renewal.
func TestSpentAtAnotherHub(t *testing.T) {
	d := newEnrolmentsFixture(t, issuedOnce)
	d.config.Moves.started = time.Now().Add(-2 * life) // it runs for long
	first := requestWith(t.Context(), d.certificate("edge", "u"), "")
	if _, _, ok, err := d.authenticate(first); !ok || err != nil {
		t.Fatal(err)
	}
	used := issuedOnce
	used.Issued, used.Used = enroll.Mark{Number: 2, Key: "k2"}, enroll.Mark{Number: 2, Key: "k2"}
	d.store(8, used)
	if _, _, ok, err := d.authenticate(first); ok || !errors.Is(err, enroll.ErrSpent) {
		t.Errorf("%v, %v", ok, err) // a revocation would have asked for a log
	}
}

// TestJoinAtAnotherHub: a join token of one hub is valid at all hubs, including one whose table is
// older. Unauthenticated clients get the same response for each location.
func TestJoinAtAnotherHub(t *testing.T) {
	d := newEnrolmentsFixture(t, enroll.Record{Location: "u"})
	token, record := enroll.Record{Location: "u"}.WithJoin("edge", d.now.Add(time.Hour))
	_, record, err := record.Trade("edge", token, d.keyID, d.now) // by an agent that did not receive the response
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, d.key)
	if err != nil {
		t.Fatal(err)
	}
	post := func(token string, request []byte) *httptest.ResponseRecorder {
		t.Helper()
		body, err := json.Marshal(wire.Enrol{Request: request})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, route.Enrol, bytes.NewReader(body))
		r.Header.Set(wire.Header, wire.ProtocolVersion)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		d.ServeEnrol(w, r)
		return w
	}
	for what, request := range map[string][]byte{"good": request, "bad": []byte("x")} {
		here, nowhere := post("orr_j_edge.guess", request), post("orr_j_none.guess", request)
		if here.Code == http.StatusOK || here.Code != nowhere.Code || here.Body.String() != nowhere.Body.String() {
			t.Errorf("a %s request: %d %s where there is a location, %d %s where there is none", what, here.Code, here.Body, nowhere.Code, nowhere.Body)
		}
	}
	d.committed = func() { d.store(8, record) }
	if w := post(token, request); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestStrangersLearnNothing: a client with an invalid token of a former version gets the same
// response for existing, missing and revoked locations.
func TestStrangersLearnNothing(t *testing.T) {
	reported := map[string]bool{}
	for _, record := range []enroll.Record{issuedOnce, {Location: "u"}, issuedOnce.Revoke(enroll.Revocation{Message: "x"}), {Location: "u", Hash: "0"}} {
		d := newEnrolmentsFixture(t, record)
		for _, token := range []string{"edge.guess", "none.guess", "edge."} {
			_, _, ok, err := d.authenticate(requestWith(t.Context(), nil, token))
			if ok || err == nil {
				t.Fatalf("%s: %v", token, err)
			}
			reported[err.Error()+string(refusalOf(err).cause)] = true
		}
	}
	if len(reported) != 1 {
		t.Errorf("the agents receive %v", reported)
	}
}

// TestSpentIsForgivenAtFirst: a request that may have been sent before a credential was renewed is
// only refused.
func TestSpentIsForgivenAtFirst(t *testing.T) {
	record := issuedOnce
	record.Issued.Number, record.Used.Number = 2, 2
	d := newEnrolmentsFixture(t, record)
	r := requestWith(t.Context(), d.certificate("edge", "u"), "")
	if _, _, ok, err := d.authenticate(r); ok || !errors.Is(err, enroll.ErrSpent) {
		t.Errorf("%v, %v", ok, err) // a revocation would have asked for a log
	}
}
