package hub_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/protocol/route"
)

// TestCertificatesOfPeople live for an hour at most, are limited as tokens are, and carry
// no name that is the hub's.
func TestCertificatesOfPeople(t *testing.T) {
	t.Parallel() // it waits much of the time
	r := start(t, t.TempDir())
	r.addSpace("a")
	r.addSpace("b")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})))
	if err != nil {
		t.Fatal(err)
	}
	issue := func(who client, spec string) (int, client, string) {
		code, made, body := who.mint(strings.Replace(spec, "{", `{"request":`+string(request)+`,`, 1))
		c := client{r: r}
		if block, _ := pem.Decode([]byte(made.Status.Certificate)); block != nil {
			ca, err := enroll.LoadOrCreate(r.dir, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			transport := &http.Transport{TLSClientConfig: &tls.Config{
				RootCAs: ca.Pool(), MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: private}},
			}}
			t.Cleanup(transport.CloseIdleConnections)
			c.Client = &http.Client{Transport: persistent{transport}, Timeout: timeout}
		}
		return code, c, body
	}
	op := r.as("op", masters)
	code, admin, body := issue(op, `{"space":"a","role":"admin"}`)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	for request, want := range map[string]int{podsOfA: http.StatusOK, "GET /spaces/b/api/v1/pods": http.StatusForbidden, "GET /metrics": http.StatusForbidden} {
		if code, body := admin.send(request, ""); code != want {
			t.Errorf("%s: %d %s, want %d", request, code, body, want)
		}
	}
	for spec, want := range map[string]int{
		`{"user":"x","expirationSeconds":3601}`:    http.StatusBadRequest,
		`{"user":"orrery:location:l"}`:             http.StatusForbidden,
		`{"user":"x","groups":["system:masters"]}`: http.StatusOK,
	} {
		if code, _, body := issue(op, spec); code != want {
			t.Errorf("%s: %d %s, want %d", spec, code, body, want)
		}
	}
	if code, _, body := issue(r.as("alice"), `{"user":"x"}`); code != http.StatusForbidden {
		t.Errorf("a user without the right: %d %s", code, body)
	}
	if _, body := op.send("GET "+route.Tokens, ""); strings.Contains(body, "CERTIFICATE") {
		t.Errorf("listed: %s", body)
	}
	code, short, body := issue(op, `{"user":"x","groups":["system:masters"],"expirationSeconds":3}`)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	short.Timeout = 0
	watch := short.open(t.Context(), "GET /spaces/a/api/v1/configmaps?watch=1", "")
	defer func() { _ = watch.Body.Close() }()
	if watch.StatusCode == http.StatusOK { // on a slow machine it has ended before
		ends(t, watch)
	}
	r.eventually(func() string {
		if code, body := short.send(podsOfA, ""); code != http.StatusUnauthorized || !strings.Contains(body, "the client certificate expired at") {
			return body
		}
		return ""
	})
}
