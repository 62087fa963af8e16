// Package requestbody reads the bodies of requests. All of it has limits: how many bytes a body has, how deeply
// objects and lists are nested in it, and how long it is read, which is as long as its request lasts.
//
// Guard wraps each body before a handler sees it, so a handler that knows nothing of this package has the limits,
// too. The package must never know what a body is about.
package requestbody

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

const (
	// MaxDepth is how deeply objects and lists may be nested in what clients send, and in what
	// their patches make of an object. The libraries decode, validate and encode schemas at a
	// cost that grows with the square of it.
	MaxDepth = 128
	// maxBytes is for bodies for which no handler has set a smaller limit. No handler takes a larger one.
	maxBytes = 16 << 20
)

// ErrTooDeep is the answer to a body that is nested more deeply than MaxDepth.
var ErrTooDeep = tooDeep(MaxDepth)

func tooDeep(most int) error {
	return apierrors.NewBadRequest(fmt.Sprintf("objects and lists are nested deeper than %d levels, which is the limit: send fewer levels", most))
}

// Limits bound a body.
type Limits struct {
	// Bytes is how many bytes are read at most, and Depth how deeply objects and lists may be nested; 0: MaxDepth.
	Bytes int64
	Depth int
}

// reader is a body within its limits. Bodies that are no JSON are checked when they have been read.
type reader struct {
	io.ReadCloser
	ctx     context.Context
	limits  Limits
	read    int64
	nesting jsonscan.Nesting
	isJSON  bool
	failed  error
}

type readerKey struct{}

// Guard returns a request whose body has the limits of all bodies: it fails where it is too large or nested more
// deeply than MaxDepth, and when the request has ended. Guarding a request twice changes nothing.
func Guard(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody || readerOf(r) != nil {
		return r
	}
	body := &reader{ReadCloser: r.Body, limits: Limits{Bytes: maxBytes, Depth: MaxDepth}, isJSON: true}
	r = r.WithContext(context.WithValue(r.Context(), readerKey{}, body))
	r.Body, body.ctx = body, r.Context()
	return r
}

func readerOf(r *http.Request) *reader {
	body, _ := r.Context().Value(readerKey{}).(*reader)
	return body
}

// limit sets the limits of a body of which nothing has been read. isJSON reports that its depth can be followed
// while it is read.
func limit(r *http.Request, limits Limits, isJSON bool) io.Reader {
	guarded := Guard(r)
	body := readerOf(guarded)
	if body == nil {
		return http.NoBody
	}
	r.Body = guarded.Body
	if limits.Depth == 0 {
		limits.Depth = MaxDepth
	}
	body.limits, body.isJSON = limits, isJSON
	return r.Body
}

// Read implements io.Reader. After an error of its own it gives nothing more.
func (b *reader) Read(p []byte) (n int, err error) {
	if b.failed == nil {
		b.failed = b.ctx.Err()
	}
	if b.failed == nil {
		n, err = b.ReadCloser.Read(p)
		b.failed = b.check(p[:n])
	}
	if b.failed != nil {
		return 0, b.failed
	}
	return n, err
}

// check fails where the next chunk of the body exceeds a limit.
func (b *reader) check(chunk []byte) error {
	switch b.read += int64(len(chunk)); {
	case b.read > b.limits.Bytes:
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body has more than %d bytes, which is the limit: send less at a time", b.limits.Bytes))
	case b.isJSON && b.nesting.Exceeds(chunk, b.limits.Depth):
		return tooDeep(b.limits.Depth)
	}
	return nil
}

// Read reads a body of JSON as a whole.
func Read(r *http.Request, limits Limits) ([]byte, error) {
	return io.ReadAll(limit(r, limits, true))
}

// Lines returns a decoder of a body that has JSON values one after the other.
func Lines(r *http.Request, limits Limits) *json.Decoder {
	return json.NewDecoder(limit(r, limits, true))
}

// Decode decodes a body of one JSON value. It returns io.EOF if there is none.
func Decode(r *http.Request, limits Limits, into any) error { return Lines(r, limits).Decode(into) }

// ReadYAML reads a body of YAML or JSON as a whole.
func ReadYAML(r *http.Request, limits Limits) ([]byte, error) {
	data, err := io.ReadAll(limit(r, limits, false))
	if err == nil && isDeepYAML(data) {
		err = ErrTooDeep
	}
	return data, err
}

// isDeepYAML reports whether YAML or JSON is nested too deeply. YAML has its own ways to nest, which are those of JSON
// once it is converted.
func isDeepYAML(data []byte) bool {
	if !json.Valid(data) {
		var err error
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return strings.Contains(err.Error(), "max depth") // the decoder reports other faults
		}
	}
	return new(jsonscan.Nesting).Exceeds(data, MaxDepth)
}

// Peek reads a body up to a limit, and puts it back. whole reports that it has no more than that.
func Peek(r *http.Request, most int64) (data []byte, whole bool, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true, nil
	}
	data, err = io.ReadAll(io.LimitReader(r.Body, most+1))
	if err != nil {
		return nil, false, err
	}
	Replace(r, data, nil)
	return data, int64(len(data)) <= most, nil
}

// Expected is how many bytes Prefetch may read of a body, up to a limit; 0: there is no body.
func Expected(r *http.Request, most int64) int64 {
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return 0
	case r.ContentLength < 0:
		return most
	}
	return min(r.ContentLength, most)
}

// Prefetch reads the first bytes of a body, up to a limit, before anything else does, and puts them
// back. They are held to the limits of the body when they are read again. A body that breaks off
// does so when it is read again.
func Prefetch(r *http.Request, most int64) error {
	body := readerOf(r)
	if body == nil || body.read > 0 {
		return nil
	}
	var data bytes.Buffer
	if r.ContentLength > 0 {
		data.Grow(int(Expected(r, most)) + bytes.MinRead)
	}
	n, err := data.ReadFrom(io.LimitReader(body.ReadCloser, most))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if err == nil && n < most {
		err = io.EOF
	}
	body.ReadCloser = &replay{read: data.Bytes(), end: err, rest: body.ReadCloser}
	return nil
}

// Buffer reads a body into a buffer, up to one byte more than a limit.
func Buffer(r *http.Request, most int64, into *bytes.Buffer) error {
	_, err := into.ReadFrom(io.LimitReader(r.Body, most+1))
	return err
}

// Put puts a whole body in the place of one that has been read.
func Put(r *http.Request, whole []byte) { Replace(r, whole, io.EOF) }

// Replace puts something in the place of what has been read of a body. What has not been read follows, or, if there
// is one, the error with which that ended.
func Replace(r *http.Request, read []byte, end error) {
	r.Body = &replay{read: read, end: end, rest: r.Body}
}

// replay is a body of which a part has been read.
type replay struct {
	read []byte
	end  error
	rest io.ReadCloser
}

// Read implements io.Reader.
func (r *replay) Read(p []byte) (int, error) {
	switch {
	case len(r.read) > 0:
		n := copy(p, r.read)
		r.read = r.read[n:]
		return n, nil
	case r.end != nil:
		return 0, r.end
	}
	return r.rest.Read(p)
}

// Close implements io.Closer.
func (r *replay) Close() error { return r.rest.Close() }
