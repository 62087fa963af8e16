package main

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// front stands before a server and passes requests on, TLS ending at it: it sees
// them as they are. It ends with the run.
type front struct {
	server *httptest.Server
	// up and down count the bytes of bodies.
	up, down atomic.Int64
	// room bounds the requests that are under way, but for watches; nil: nothing
	// does. Those beyond are refused, as an API server refuses them, and counted.
	room     chan struct{}
	refusals atomic.Int64
	// busy is for how long, in nanoseconds, requests have been in the room, added up.
	busy atomic.Int64
	next http.Handler
}

// startFront starts one that shows a certificate, or one of its own where it has none.
func startFront(t env.T, to string, transport http.RoundTripper, room int, shown ...tls.Certificate) (*front, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, fmt.Errorf("start a front: %w", err)
	}
	f := &front{next: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // streams
	}}
	if room > 0 {
		f.room = make(chan struct{}, room)
	}
	f.server = httptest.NewUnstartedServer(f)
	if len(shown) > 0 {
		f.server.TLS = &tls.Config{Certificates: shown}
	}
	env.Serve(t, f.server)
	return f, nil
}

// certificate is what its clients have to trust.
func (f *front) certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}

// payload is how many bytes of bodies have passed.
func (f *front) payload() (up, down int64) { return f.up.Load(), f.down.Load() }

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.room != nil && r.URL.Query().Get("watch") == "" {
		select {
		case f.room <- struct{}{}:
			begun := time.Now()
			defer func() {
				<-f.room
				f.busy.Add(int64(time.Since(begun)))
			}()
		default:
			f.refusals.Add(1)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
			return
		}
	}
	r.Body = countedBody{r.Body, &f.up}
	f.next.ServeHTTP(countedAnswer{w, &f.down}, r)
}

type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (c countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

type countedAnswer struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c countedAnswer) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

// Unwrap lets the answer be flushed.
func (c countedAnswer) Unwrap() http.ResponseWriter { return c.ResponseWriter }
