package conformance

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// send sends a request. The path goes out as it is written, with its escapes.
func (s *server) send(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	base, err := url.Parse(s.url)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url, reader)
	if err != nil {
		return nil, err
	}
	raw, query, _ := strings.Cut(path, "?")
	raw = base.Path + raw
	req.URL.RawQuery = query
	if req.URL.Path, err = url.PathUnescape(raw); err != nil {
		return nil, err
	}
	req.URL.RawPath = raw
	if body != "" && !named("Content-Type", headers) {
		req.Header.Set("Content-Type", typeJSON)
	}
	if !named("User-Agent", headers) {
		req.Header.Set("User-Agent", "conformance/v1")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	return s.client.Do(req)
}

func named(name string, headers []string) bool {
	for _, h := range headers {
		if strings.HasPrefix(h, name+":") {
			return true
		}
	}
	return false
}
