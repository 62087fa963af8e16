package clients

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// traffic is what a client has asked for, and how it was answered.
type traffic struct {
	mu       sync.Mutex
	requests []request
}

type request struct {
	path, query, contentType string
}

// recording returns a copy of a configuration; l records its requests.
func (l *traffic) recording(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil {
				l.add(request{path: r.URL.Path, query: r.URL.RawQuery, contentType: resp.Header.Get("Content-Type")})
			}
			return resp, err
		})
	})
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (l *traffic) add(r request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
}

// any reports whether a recorded request has the resource as the last element of its path and the
// given text in its query. It returns the content type of the response to the first such request.
func (l *traffic) any(resource, query string) (contentType string, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.requests, func(r request) bool {
		return strings.HasSuffix(r.path, "/"+resource) && strings.Contains(r.query, query)
	})
	if i < 0 {
		return "", false
	}
	return l.requests[i].contentType, true
}
