package hubclient

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestRetryAfter checks that the client reads Retry-After and bounds it.
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

// TestHubWithoutShards checks that an agent of a shard accepts no response for the whole location,
// as a hub of a version without shards sends it, nor one for another shard.
func TestHubWithoutShards(t *testing.T) {
	mine := key.NewShard(1, 2)
	for shard, accepted := range map[string]bool{"": false, "2/2": false, "1/3": false, "1/2": true} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requested := r.URL.Query().Get(wire.ShardParam); requested != mine.String() {
				t.Errorf("the agent requested shard %q, want %s", requested, mine)
			}
			w.Header().Set(wire.Header, wire.ProtocolVersion)
			if shard != "" {
				w.Header().Set(wire.ShardHeader, shard)
			}
		}))
		ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
		client, err := New(Config{Join: wire.Join{Hub: server.URL, Location: "a", Token: "t", CA: ca}, Agent: "test", Shard: mine, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		(&Renewer{client: client}).lasting("t")
		for _, call := range []string{route.Desired, route.Walk, route.Fetch, route.ReportsWalk, route.Reports, route.AgentStatus} {
			body, err := client.do(t.Context(), http.MethodPost, call, nil, strings.NewReader(""))
			if err == nil {
				err = body.Close()
			}
			if (err == nil) != accepted {
				t.Errorf("%s with a response for shard %q: %v", call, shard, err)
			}
		}
		client.drop()
		server.Close()
	}
}
