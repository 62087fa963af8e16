package read

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"orrery.dev/orrery/internal/hub/kubeapi/read/pieces"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestListsOfClientsThatVanish checks that buffers of lists whose clients disconnect are reused
// safely: other lists are complete and contain nothing of another space.
func TestListsOfClientsThatVanish(t *testing.T) {
	f := newFixture(t)
	spaces := []key.Space{"a", "b"}
	for _, space := range spaces {
		for _, name := range []string{"x", "y", "z"} {
			f.put(cm(space, name, strings.Repeat(string(space), 30<<10)), cm(space, "large-"+name, strings.Repeat(string(space), 4*pieces.Bytes)))
		}
	}
	plain := f.serve()
	s := httptest.NewUnstartedServer(plain.Config.Handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)

	list := func(ctx context.Context, space key.Space, accept string) (io.ReadCloser, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/spaces/"+string(space)+"/api/v1/configmaps", nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", accept)
		resp, err := s.Client().Do(req)
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}
	var all sync.WaitGroup
	for i, space := range append(spaces, spaces...) {
		accept := []string{protobufBody, "application/json"}[i/2]
		var want []byte
		all.Go(func() {
			for range 40 {
				body, err := list(t.Context(), space, accept)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(body)
				body.Close()
				if want == nil {
					want = got
				}
				if other := strings.Repeat(string(spaces[1-i%2]), 100); err != nil || len(got) < 100<<10 || !bytes.Equal(got, want) || bytes.Contains(got, []byte(other)) {
					t.Errorf("list of space %s: %v, %d bytes, which are not its own", space, err, len(got))
				}
			}
		})
		all.Go(func() {
			for n := range 80 {
				ctx, cancel := context.WithCancel(t.Context())
				body, err := list(ctx, space, accept)
				if err == nil {
					_, _ = io.CopyN(io.Discard, body, int64(n)<<12)
					cancel()
					body.Close()
				}
				cancel()
			}
		})
	}
	all.Wait()
}
