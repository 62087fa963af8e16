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

// of returns a configuration whose requests are written down.
func (l *traffic) of(c *rest.Config) *rest.Config {
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

// any reports whether there was a request for the resource, a path's last element,
// whose query has part in it, and how it was answered.
func (l *traffic) any(resource, part string) (contentType string, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.requests, func(r request) bool {
		return strings.HasSuffix(r.path, "/"+resource) && strings.Contains(r.query, part)
	})
	if i < 0 {
		return "", false
	}
	return l.requests[i].contentType, true
}
