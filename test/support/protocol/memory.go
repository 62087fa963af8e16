package protocol

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// Memory is a transport that calls a handler without a network, so it works in a synctest bubble.
type Memory struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (m Memory) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	from, to := io.Pipe()
	w := &memoryWriter{header: http.Header{}, body: to, begun: make(chan struct{})}
	served := r.Clone(ctx)
	if served.Body == nil {
		served.Body = http.NoBody
	}
	go func() { // ends with the request, at the latest when the response body is closed
		defer cancel()
		defer func() { _ = served.Body.Close() }() // an error has no receiver
		err := io.EOF
		defer func() {
			if recover() != nil { // like a server that aborts
				err = io.ErrUnexpectedEOF
			}
			w.WriteHeader(http.StatusOK)
			_ = to.CloseWithError(err) // always nil
		}()
		m.Handler.ServeHTTP(w, served)
	}()
	stop := context.AfterFunc(ctx, func() { _ = to.CloseWithError(context.Cause(ctx)) }) // always nil
	select {
	case <-w.begun:
	case <-r.Context().Done():
		cancel()
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: w.code, Status: http.StatusText(w.code), Header: w.header, Proto: "HTTP/2.0", ProtoMajor: 2,
		Body: &memoryBody{from, func() { stop(); cancel() }}, Request: r, ContentLength: -1,
	}, nil
}

type memoryBody struct {
	*io.PipeReader
	end func()
}

// Close ends the request.
func (b *memoryBody) Close() error {
	err := b.PipeReader.CloseWithError(errors.New("the answer was closed"))
	b.end()
	return err
}

type memoryWriter struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	code   int
	begun  chan struct{}
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(code int) {
	w.once.Do(func() {
		w.code = code
		close(w.begun)
	})
}

func (w *memoryWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush implements http.Flusher.
func (w *memoryWriter) Flush() { w.WriteHeader(http.StatusOK) }
