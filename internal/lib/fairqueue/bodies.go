package fairqueue

import (
	"io"
	"net/http"
)

// SmallBody is the number of bytes that each request may send without a turn.
const SmallBody = 256 << 10

// Bodies limits the memory for request bodies. A large body needs a turn of the Queue until the
// request ends, and is refused if no turn is free.
type Bodies struct{ Queue *Queue }

// Limit wraps the body of a request so that it takes a turn for the flow when the body becomes
// large. done returns the turn; the caller must call it when the body's memory is free.
func (b Bodies) Limit(r *http.Request, flow Flow) (done func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}
	}
	body := &limited{body: r.Body, enter: func() (func(), error) { return b.Queue.Try(flow) }}
	r.Body = body
	return func() {
		if body.leave != nil {
			body.leave()
		}
	}
}

// limited is a body that takes a turn when it becomes large.
type limited struct {
	body  io.ReadCloser
	enter func() (leave func(), err error)
	read  int
	leave func()
}

// Read implements io.Reader. It takes a turn before it reads more than SmallBody bytes.
func (l *limited) Read(p []byte) (int, error) {
	if l.read >= SmallBody && l.leave == nil {
		leave, err := l.enter()
		if err != nil {
			return 0, err
		}
		l.leave = leave
	}
	if l.leave == nil {
		p = p[:min(len(p), SmallBody-l.read)]
	}
	n, err := l.body.Read(p)
	l.read += n
	return n, err
}

// Close implements io.Closer.
func (l *limited) Close() error { return l.body.Close() }
