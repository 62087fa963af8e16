package hub_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
)

// TestStopping checks that a hub during shutdown starts no watch on an open connection: a client that reconnects
// as soon as its watch ends is sent elsewhere, or gets no response. An informer whose watch starts and ends at
// once would list all objects again.
func TestStopping(t *testing.T) {
	t.Parallel()
	const watches = 50
	for range 5 {
		r := start(t, t.TempDir())
		r.addSpace("s")
		client, url := r.operator(), r.URL+"/spaces/s/api/v1/namespaces/default/configmaps?watch=true"
		request := func() (*http.Response, error) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				return nil, err
			}
			return client.Do(req)
		}
		var open, ended sync.WaitGroup
		for range watches {
			open.Add(1)
			ended.Go(func() {
				resp, err := request()
				open.Done()
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("watch: %v, %v", resp, err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body) // until the hub stops
				_ = resp.Body.Close()
				again, err := request()
				if err != nil {
					return // the connection is closed, or none can be made
				}
				if again.StatusCode != http.StatusTooManyRequests || again.Header.Get("Retry-After") == "" {
					t.Errorf("a hub that stops answers %s", again.Status)
				}
				_ = again.Body.Close()
			})
		}
		open.Wait()
		r.stop()
		ended.Wait()
	}
}
