package hubclient

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// somewhere returns the endpoint of a new hub that responds to probes.
func somewhere(t *testing.T) wire.Endpoint {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(wire.Header, wire.ProtocolVersion)
	}))
	t.Cleanup(server.Close)
	return wire.Endpoint{URL: server.URL, CA: pemOf(server.Certificate())}
}

func pemOf(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

func reachOf(t *testing.T, dir string, e wire.Endpoint) *reach {
	t.Helper()
	r, err := newReach(wire.Join{Hub: e.URL, CA: e.CA, Location: "a", Token: "t"}, dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func announce(t *testing.T, r *reach, all ...wire.Endpoint) {
	t.Helper()
	if err := r.announced(wire.Endpoints{Endpoints: all}); err != nil {
		t.Fatal(err)
	}
}

// TestReach checks that announced endpoints are tried, that former ones remain until an announced
// one has worked, and that they are not trusted afterwards; also with restarts in between.
func TestReach(t *testing.T) {
	first := somewhere(t)
	second := somewhere(t)
	dir := t.TempDir()
	again := func() *reach { return reachOf(t, dir, first) }
	r := again()
	r.worked(r.current())
	announce(t, r, second)
	if now := r.current().Endpoint; now != first {
		t.Fatalf("an announcement moves to %s before anything was tried", now.URL)
	}
	r = again()
	r.failed(r.current())
	if now := r.current().Endpoint; now != second {
		t.Fatalf("when what was used fails, %s is tried, not what was announced", now.URL)
	}
	r.failed(r.current())
	if now := r.current().Endpoint; now != first {
		t.Fatalf("what was announced fails, and %s is tried, not what had worked", now.URL)
	}
	r.failed(r.current())
	r.worked(r.current())
	for range 3 {
		if now := r.current().Endpoint; now != second {
			t.Fatalf("%s is still trusted", now.URL)
		}
		r.failed(r.current())
	}
	if now := again().current().Endpoint; now != second {
		t.Fatalf("after a restart %s is used", now.URL)
	}
	other := reachOf(t, dir, wire.Endpoint{URL: "https://elsewhere", CA: first.CA})
	if now := other.current().URL; now != "https://elsewhere" {
		t.Fatalf("another join token leads to %s", now)
	}
	if info, err := os.Stat(filepath.Join(dir, reachFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%s: %v %v", reachFile, info, err)
	}
}

// TestReachStays checks that an announcement without a URL, but with an authority, keeps the URL.
func TestReachStays(t *testing.T) {
	first := somewhere(t)
	r := reachOf(t, t.TempDir(), first)
	announcement := wire.Endpoint{CA: first.CA}
	announce(t, r, announcement)
	if now := r.current().Endpoint; now != first || !r.kept.Confirmed {
		t.Errorf("the current endpoint is %+v, confirmed %v, want %+v, confirmed", now, r.kept.Confirmed, first)
	}
	if want := (wire.Endpoints{Endpoints: []wire.Endpoint{announcement}}).Digest(); r.digest() != want {
		t.Errorf("the digest is %s, want %s", r.digest(), want)
	}
}

// TestReachRefuses checks that invalid announcements and damaged files are rejected.
func TestReachRefuses(t *testing.T) {
	first := somewhere(t)
	dir := t.TempDir()
	r := reachOf(t, dir, first)
	many := make([]wire.Endpoint, wire.MaxEndpoints+1)
	for i := range many {
		many[i] = first
	}
	for name, all := range map[string][]wire.Endpoint{
		"none": nil, "too many": many, "plain": {{URL: "http://hub", CA: first.CA}}, "no authority": {{URL: "https://hub"}},
		"no certificate": {{URL: "https://hub", CA: "garbage"}}, "both": {{URL: "https://hub", CA: first.CA, SystemRoots: true}},
		"a user": {{URL: "https://u:p@hub", CA: first.CA}}, "a query": {{URL: "https://hub?a", CA: first.CA}},
		"too large": {{URL: "https://hub", CA: strings.Repeat(first.CA, 200)}}, "dots": {{URL: "https://hub/a/../b", CA: first.CA}},
	} {
		if err := r.announced(wire.Endpoints{Endpoints: all}); err == nil {
			t.Errorf("%s: the announcement is accepted", name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, reachFile), []byte(`{"join":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if now := reachOf(t, dir, first).current().Endpoint; now != first {
		t.Errorf("with a damaged file %s is used", now.URL)
	}
}

// TestMover checks that the mover changes to the preferred endpoint once a hub responds there,
// and ends the session only if the URL differs.
func TestMover(t *testing.T) {
	first := somewhere(t)
	preferred := somewhere(t)
	stranger := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer stranger.Close()
	client, err := New(Config{Join: wire.Join{Hub: first.URL, CA: first.CA, Location: "a", Token: "t"}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	(&Renewer{client: client}).lasting("t")
	r, m := client.reach, NewMover(client)
	r.worked(r.current())
	announce(t, r, wire.Endpoint{URL: stranger.URL, CA: pemOf(stranger.Certificate())}, preferred, first)
	left := 0
	if all, _ := r.better(); len(all) > 0 {
		t.Fatal("without a session something is tried")
	}
	done := r.during(func() { left++ })
	all, _ := r.better()
	if err := m.try(t.Context(), all[:1]); err == nil {
		t.Fatal("who is no hub is taken for one")
	}
	if err := m.try(t.Context(), all); err != nil || r.current().Endpoint != preferred || left != 1 {
		t.Fatalf("moved to %s, left %d sessions: %v", r.current().URL, left, err)
	}
	r.worked(r.current())
	done()
	defer r.during(func() { left++ })()
	both := wire.Endpoint{URL: preferred.URL, CA: preferred.CA + first.CA}
	announce(t, r, both)
	all, _ = r.better()
	if err := m.try(t.Context(), all); err != nil || r.current().Endpoint != both || left != 1 || !r.kept.Confirmed {
		t.Fatalf("with another authority at %s, left %d sessions, %+v: %v", r.current().URL, left, r.kept, err)
	}
}

// TestMoverGivesUp checks that a preferred endpoint that responds, but at which no session can be
// opened, is tried at growing intervals: each attempt ends the session that works.
func TestMoverGivesUp(t *testing.T) {
	works, answers := somewhere(t), somewhere(t)
	client, err := New(Config{Join: wire.Join{Hub: works.URL, CA: works.CA, Location: "a", Token: "t"}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	r, m := client.reach, NewMover(client)
	announce(t, r, answers, works)
	for tried := uint8(1); tried < 5; tried++ {
		r.worked(r.current())
		done := r.during(func() {})
		all, failures := r.better()
		if failures != tried {
			t.Fatalf("trial %d counts as number %d", tried, failures)
		}
		if err := m.try(t.Context(), all); err != nil || r.current().Endpoint != answers {
			t.Fatalf("it stays at %s: %v", r.current().URL, err)
		}
		done()
		r.failed(r.current())
		if r.current().Endpoint != works {
			t.Fatalf("it goes on with %s", r.current().URL)
		}
	}
}

// TestNoRedirection checks that the agent sends requests only to endpoints of the hub.
func TestNoRedirection(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s arrives without encryption, with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		w.Header().Set(wire.Header, wire.ProtocolVersion)
	}))
	defer elsewhere.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	e := wire.Endpoint{URL: server.URL, CA: pemOf(server.Certificate())}
	client, err := New(Config{Join: wire.Join{Hub: e.URL, CA: e.CA, Location: "a", Token: "t"}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	(&Renewer{client: client}).lasting("s3cret")
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if _, err := client.do(t.Context(), method, "desired", nil, http.NoBody); err == nil || !strings.Contains(err.Error(), "redirects to "+elsewhere.URL) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := NewMover(client).probe(t.Context(), client.reach.current()); err == nil {
		t.Error("where the redirection leads is taken for the hub")
	}
}

// stalled is the body of a response that never arrives.
type stalled struct{ closed chan struct{} }

func (s stalled) Read([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }

func (s stalled) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// TestStalledRefusal checks that an agent does not wait forever for the body of an error response.
func TestStalledRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := Over(roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusBadGateway, Header: http.Header{}, Body: stalled{make(chan struct{})}}, nil
		}), wire.Join{Hub: "https://hub", Location: "a"}, "test", key.Shard{})
		if _, err := client.do(t.Context(), http.MethodGet, "desired", nil, http.NoBody); err == nil || !strings.Contains(err.Error(), "502") {
			t.Error(err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPulse checks that a shorter heartbeat is requested only after two quiet sessions that broke
// after similar silences.
func TestPulse(t *testing.T) {
	const beat = 30 * time.Second
	type end struct {
		silent time.Duration
		err    error
	}
	cut := io.ErrUnexpectedEOF
	for name, c := range map[string]struct {
		ends []end
		want int
	}{
		"cut alike":       {[]end{{5 * time.Second, cut}, {5200 * time.Millisecond, cut}}, 2},
		"cut once":        {[]end{{5 * time.Second, cut}}, 0},
		"cut differently": {[]end{{5 * time.Second, cut}, {14 * time.Second, cut}}, 0},
		"cut while busy":  {[]end{{20 * time.Millisecond, cut}, {20 * time.Millisecond, cut}}, 0},
		"ended":           {[]end{{5 * time.Second, errBye}, {5 * time.Second, errMoved}, {5 * time.Second, nil}}, 0},
		"renewed":         {[]end{{5 * time.Second, errRenewed}, {5 * time.Second, errRenewed}}, 0},
		"interrupted":     {[]end{{5 * time.Second, cut}, {5 * time.Second, errBye}, {5 * time.Second, cut}}, 0},
		"swallowed":       {[]end{{3 * beat, errSilent}, {3 * beat, errSilent}}, 15},
		"very short":      {[]end{{time.Second, cut}, {time.Second, cut}}, 1},
	} {
		var p pulse
		for _, e := range c.ends {
			p.ended(e.silent, beat, e.err)
		}
		if got := p.request(); got != c.want {
			t.Errorf("%s: asks for %ds, want %d", name, got, c.want)
		}
	}
}

// TestProxy checks that the rejection by a proxy is a clear error, and that no error contains a password.
func TestProxy(t *testing.T) {
	const secret = "s3cret%zz"
	file := filepath.Join(t.TempDir(), "proxy")
	if err := os.WriteFile(file, []byte("http://site:"+secret+"@proxy:3128"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "https://hub.example/", nil)
	t.Setenv("HTTPS_PROXY", "http://site:"+secret+"@proxy:3128")
	for _, p := range []Proxy{{}, {File: file}, {URL: "http://site:" + secret + "@proxy:3128"}} {
		if u, err := p.urlFor(r); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v, %v", u, err)
		}
	}
	t.Setenv("HTTPS_PROXY", "")
	for _, p := range []Proxy{{URL: "http://u:p@proxy:1"}, {URL: "ftp://proxy"}, {URL: "proxy:3128"}, {URL: "http://proxy:1", File: file}} {
		if err := p.Validate(); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("valid: %v", err)
		}
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") == "" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer refusing.Close()
	hub := somewhere(t)
	try := func(proxy string) error {
		if err := os.WriteFile(file, []byte(proxy+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		client, err := New(Config{Join: wire.Join{Hub: hub.URL, CA: hub.CA, Location: "a", Token: "t"}, Proxy: Proxy{File: file}, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		(&Renewer{client: client}).lasting("t")
		_, err = client.do(t.Context(), http.MethodPost, "reports", nil, http.NoBody)
		return err
	}
	if err := try(refusing.URL); err == nil || !strings.Contains(err.Error(), "requires a user and a password") {
		t.Errorf("without a password: %v", err)
	}
	err := try(strings.Replace(refusing.URL, "http://", "http://site:s3cret@", 1))
	if err == nil || !strings.Contains(err.Error(), "does not connect to") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("with one: %v", err)
	}
	if err := errors.Join(try("http://site:s3cret@127.0.0.1:1")); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("nobody there: %v", err)
	}
}
