package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/env"
)

// mostLate is how many writes etcd may be too slow for. A machine that stands still for a while makes
// several; more of them are a fault.
const mostLate = 50

// TestOverload shows that the writes of a space that writes without pause wait in a queue of that
// space, and that the hub asks its clients to retry when too many are in flight. Meanwhile another
// space is served almost as if it were alone. The test counts requests and does not measure time.
func TestOverload(t *testing.T) {
	const atOnce = 8
	hub := env.StartHub(t, fmt.Sprintf("--max-mutating-requests-inflight=%d", atOnce))
	for _, s := range []string{"greedy", "modest"} {
		env.CreateSpace(t, hub.Kubeconfig, s)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var made, refused, late atomic.Int64
	var writers sync.WaitGroup
	client, err := rest.HTTPClientFor(hub.PathConfig(""))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 * atOnce {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				code, retryAfter := create(ctx, client, hub, "greedy", fmt.Sprintf("c-%d-%d", i, n))
				switch {
				case code == http.StatusCreated:
					made.Add(1)
				case code == http.StatusTooManyRequests && retryAfter != "":
					refused.Add(1)
					<-time.After(20 * time.Millisecond) // impatient, but not all of the machine
				case code == http.StatusGatewayTimeout: // etcd may have written it
					late.Add(1)
				case ctx.Err() == nil:
					t.Errorf("a write to the greedy space was answered %d, Retry-After %q", code, retryAfter)
				}
			}
		})
	}
	env.Eventually(t, env.Soon, func() error {
		if made.Load() < 100 || refused.Load() == 0 {
			return fmt.Errorf("%d made, %d refused", made.Load(), refused.Load())
		}
		return nil
	})

	const modest = 100
	before := made.Load()
	for n := range modest {
		again := false
		code, _ := create(ctx, client, hub, "modest", fmt.Sprintf("c-%d", n))
		for ; code == http.StatusGatewayTimeout && late.Add(1) <= mostLate; again = true {
			code, _ = create(ctx, client, hub, "modest", fmt.Sprintf("c-%d", n))
		}
		if code != http.StatusCreated && !(again && code == http.StatusConflict) {
			t.Fatalf("write %d to the modest space was answered %d", n, code)
		}
	}
	// First come, first served would let all that wait of the greedy space pass before each write.
	queue := int64(4 * atOnce)
	if passed := made.Load() - before; passed > modest*queue {
		t.Errorf("%d writes of the greedy space passed %d of the modest one: it waited behind all of them", passed, modest)
	} else {
		t.Logf("%d writes of the greedy space while the modest one made %d; %d refused", passed, modest, refused.Load())
	}
	stop()
	writers.Wait()
	if n := late.Load(); n > 0 {
		t.Logf("etcd was too slow for %d writes", n)
		if n > mostLate {
			t.Errorf("etcd was too slow for %d writes, want at most %d", n, mostLate)
		}
	}
	resp, err := client.Get(hub.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	metrics, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`orrery_requests_refused_total\{class="write"\} [1-9]`).Match(metrics) {
		t.Errorf("the metrics do not tell of refused writes: %s", resp.Status)
	}
}

// create makes a ConfigMap in a space and returns the code and the Retry-After
// of the answer; 0 if there was none.
func create(ctx context.Context, client *http.Client, hub *env.Hub, space, name string) (code int, retryAfter string) {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"k":"v"}}`, name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hub.URL+"/spaces/"+space+"/api/v1/namespaces/default/configmaps", bytes.NewBufferString(body))
	if err != nil {
		return 0, ""
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("Retry-After")
}
