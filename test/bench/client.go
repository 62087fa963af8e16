package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// Content types of request bodies.
const (
	jsonBody   = "application/json"
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

// client speaks to one Kubernetes API over a connection of its own. It reads no
// more of an answer than it is asked for, so that little of what is measured is
// the client. It is safe for concurrent use.
type client struct {
	base string
	http *http.Client
}

// newClient makes a client that has no connection yet.
func newClient(c *rest.Config) (*client, error) {
	tls, err := rest.TLSConfigFor(c)
	if err != nil {
		return nil, fmt.Errorf("make a client for %q: %w", c.Host, err)
	}
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64}
	wrapped, err := rest.HTTPWrappersForConfig(c, transport)
	if err != nil {
		return nil, fmt.Errorf("make a client for %q: %w", c.Host, err)
	}
	return &client{base: strings.TrimRight(c.Host, "/"), http: &http.Client{Transport: wrapped}}, nil
}

// newClients makes n clients and has each open its connection.
func newClients(ctx context.Context, c *rest.Config, n int) ([]*client, error) {
	all := make([]*client, n)
	group, ctx := errgroup.WithContext(ctx)
	for i := range all {
		group.Go(func() (err error) {
			if all[i], err = newClient(c); err != nil {
				return err
			}
			_, err = all[i].get(ctx, "/api/v1/namespaces/default")
			return err
		})
	}
	return all, group.Wait()
}

// close closes the connection.
func (c *client) close() { c.http.CloseIdleConnections() }

// open sends a request and returns the answer's body, which the caller closes.
func (c *client) open(ctx context.Context, method, path, content string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Accept", jsonBody)
	if content != "" {
		req.Header.Set("Content-Type", content)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // what there is of it
	return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, gjson.GetBytes(text, "message"))
}

// do sends a request and drops the answer.
func (c *client) do(ctx context.Context, method, path, content string, body []byte) error {
	answer, err := c.open(ctx, method, path, content, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}

// request sends a request and returns the answer.
func (c *client) request(ctx context.Context, method, path, content string, body []byte) ([]byte, error) {
	answer, err := c.open(ctx, method, path, content, body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	text, err := io.ReadAll(answer)
	if err != nil {
		return nil, fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return text, nil
}

func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	return c.request(ctx, http.MethodGet, path, "", nil)
}

func (c *client) create(ctx context.Context, path string, body []byte) error {
	return c.do(ctx, http.MethodPost, path, jsonBody, body)
}

func (c *client) patch(ctx context.Context, path string, body string) error {
	return c.do(ctx, http.MethodPatch, path, mergePatch, []byte(body))
}

// share has workers do things 0 to n-1, each worker one at a time.
func share[W any](ctx context.Context, workers []W, n int, do func(ctx context.Context, w W, i int) error) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for _, w := range workers {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, w, i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// eventually waits until f returns nil.
func eventually(ctx context.Context, what string, f func() error) error {
	return eventuallyWithin(ctx, timeLimit, what, f)
}

func eventuallyWithin(ctx context.Context, limit time.Duration, what string, f func() error) error {
	const every = 50 * time.Millisecond
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %s: not so after %s: %w", what, limit, err)
		}
		if !wait(ctx, every) {
			return fmt.Errorf("wait for %s: %w", what, errors.Join(context.Cause(ctx), err))
		}
	}
}

// wait lets time pass; false: the run was interrupted.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
