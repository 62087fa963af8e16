package conformance

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orrery.dev/orrery/internal/lib/retry"
)

// notReady is what Kubernetes answers, with 429, to lists and watches of a resource whose watch
// cache has not been filled since its CRD changed. Clients repeat such requests.
const notReady = "storage is (re)initializing"

// send sends a request, and sends it again while the answer is notReady. The path goes out as
// it is written, with its escapes.
func (s *server) send(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	for deadline := time.Now().Add(timeout); ; {
		resp, err := s.sendOnce(ctx, method, path, body, headers...)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || time.Now().After(deadline) {
			return resp, err
		}
		content, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(content, []byte(notReady)) {
			resp.Body = io.NopCloser(bytes.NewReader(content))
			return resp, nil
		}
		retry.Pause(ctx, 20*time.Millisecond)
	}
}

func (s *server) sendOnce(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
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
