package hub

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/wire"
)

// TestRetryAfter shows that the agent hears for how long a hub asks to be left alone.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{"3": 3 * time.Second, "": 0, "x": 0, "-1": 0, "86400": maxRetryAfter} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
		client, err := New(Config{Join: wire.Join{Hub: server.URL, Location: "a", Token: "t", CA: ca}, Agent: "test", Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		(&Renewer{client: client}).lasting("t")
		_, err = client.do(t.Context(), http.MethodPost, "reports", nil, strings.NewReader(""))
		if got := asksToWait(err); got != want {
			t.Errorf("Retry-After %q: %s (%v), want %s", header, got, err, want)
		}
		client.drop()
		server.Close()
	}
}
