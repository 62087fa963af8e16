package fair

import (
	"io"
	"net/http"
)

// smallBody is what every request may send without asking.
const smallBody = 256 << 10

// Bodies bounds the memory that the bodies of requests take: a large one needs a turn
// of a Queue, which is held until the request ends, and is refused if there is none.
type Bodies struct{ Queue *Queue }

// Limit has the body of a request of a flow take a turn when it is large; done must be
// called when nothing is left of it.
func (b Bodies) Limit(r *http.Request, name string) (done func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}
	}
	body := &limited{body: r.Body, enter: func() (func(), error) { return b.Queue.Try(name) }}
	r.Body = body
	return func() {
		if body.leave != nil {
			body.leave()
		}
	}
}

// limited is a body that takes a turn once it is large.
type limited struct {
	body  io.ReadCloser
	enter func() (leave func(), err error)
	read  int
	leave func()
}

// Read reads on, with a turn if the body is large.
func (l *limited) Read(p []byte) (int, error) {
	if l.read >= smallBody && l.leave == nil {
		leave, err := l.enter()
		if err != nil {
			return 0, err
		}
		l.leave = leave
	}
	if l.leave == nil {
		p = p[:min(len(p), smallBody-l.read)]
	}
	n, err := l.body.Read(p)
	l.read += n
	return n, err
}

// Close ends the body.
func (l *limited) Close() error { return l.body.Close() }
