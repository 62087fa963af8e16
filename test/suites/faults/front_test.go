package faults

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/test/support/env"
)

// front is a proxy before an API server that can answer in its place.
type front struct {
	// kubeconfig is the agent's, through the front.
	kubeconfig string
	server     *httptest.Server

	mu     sync.Mutex
	answer http.HandlerFunc // nil: the API server's
	only   func(*http.Request) bool
}

func startFront(t *testing.T, c *env.Cluster) *front {
	t.Helper()
	target, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	// The agent's credentials pass through.
	transport, err := rest.TransportFor(&rest.Config{Host: c.Config.Host, TLSClientConfig: rest.TLSClientConfig{CAFile: c.Config.CAFile, CAData: c.Config.CAData}})
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
	}
	f := &front{}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		answer := f.answer
		if f.only != nil && !f.only(r) {
			answer = nil
		}
		f.mu.Unlock()
		if answer == nil {
			proxy.ServeHTTP(w, r)
			return
		}
		answer(w, r)
	}))
	env.Serve(t, f.server)
	f.writeKubeconfig(t, c)
	return f
}

func (f *front) writeKubeconfig(t *testing.T, c *env.Cluster) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(c.AgentKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthority = f.server.URL, ""
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	}
	f.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, f.kubeconfig); err != nil {
		t.Fatal(err)
	}
}

// fail has the front answer some requests itself, nil: all. Watches that are open
// end, as those of a broken API server do.
func (f *front) fail(answer http.HandlerFunc, only func(*http.Request) bool) {
	f.mu.Lock()
	f.answer, f.only = answer, only
	f.mu.Unlock()
	f.server.CloseClientConnections()
}

func (f *front) heal() { f.fail(nil, nil) }

// refuse answers with a Status.
func refuse(code int, reason, message string, retryAfter int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if retryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(retryAfter))
		}
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d,"details":{"retryAfterSeconds":%d}}`,
			reason, message, code, retryAfter) // the agent may have gone
	}
}

// answer answers every request with a text and status 200.
func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, body) // the agent may have gone
	}
}
