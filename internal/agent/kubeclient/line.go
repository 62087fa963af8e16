package kubeclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/lib/retry"
)

const (
	// lineTimeout is the time after which a request in the line of a busy target fails.
	lineTimeout = 20 * time.Second
	// lineHold is the time for which a request without a response blocks the next one. A watch may get no response
	// until its first event.
	lineHold = 5 * time.Second
	// lineRest is the longest time between two requests of the line after the target has rejected one.
	lineRest = time.Second
)

// line sends reads that Limiter does not limit. While a busy target rejects some of them, it sends them one after
// the other, and repeats each after the time that the target asks for. So a probe, which needs several
// responses in a row, gets them even if the target accepts few requests. A line is safe for concurrent use.
type line struct {
	turn chan struct{}
	// waiting counts the requests that wait.
	waiting atomic.Int32
	// next is when the next request may be sent. Only the request that has the turn reads and sets it.
	next time.Time
}

func newLine() *line { return &line{turn: make(chan struct{}, 1)} }

// send sends a request, at once if no other waits. It returns the error of a busy target if the target rejects
// the request for lineTimeout, or until the deadline of ctx.
func (l *line) send(ctx context.Context, send func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	var own time.Duration // the time that the target asked this request to wait
	refused := error(apierrors.NewTooManyRequests("the cluster is busy, and other requests wait for it", 1))
	if l.waiting.Load() == 0 {
		body, err := send()
		if !Busy(err) {
			return body, err
		}
		refused, own = err, restAfter(err)
	}
	leave := sync.OnceFunc(func() { l.waiting.Add(-1) })
	l.waiting.Add(1)
	defer leave()
	limited, cancel := context.WithTimeout(ctx, lineTimeout) // limits only the wait: reading the response may take longer
	defer cancel()
	for l.await(limited, own) {
		retry.Pause(limited, time.Until(l.next))
		if limited.Err() != nil {
			<-l.turn
			break
		}
		body, err := l.hold(send, leave)
		if !Busy(err) {
			return body, err
		}
		refused, own = err, restAfter(err)
	}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return nil, err
	}
	return nil, refused
}

// hold sends the request whose turn it is. If it has no response in time, it leaves the line and the next one is sent.
func (l *line) hold(send func() (io.ReadCloser, error), leave func()) (io.ReadCloser, error) {
	end := sync.OnceFunc(func() { <-l.turn })
	late := time.AfterFunc(lineHold, func() {
		leave()
		end()
	})
	l.next = time.Time{}
	body, err := send()
	if late.Stop() && Busy(err) {
		l.next = time.Now().Add(min(restAfter(err), lineRest))
	}
	end()
	return body, err
}

// await waits for the time own, and then for the turn. It returns false if ctx ends before.
func (l *line) await(ctx context.Context, own time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < own {
		return false
	}
	if own > 0 {
		retry.Pause(ctx, own)
	}
	if ctx.Err() != nil {
		return false
	}
	select {
	case l.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
