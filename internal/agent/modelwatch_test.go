package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/protocol/key"
)

// watchBody is the answer to a watch. It is for one reader.
type watchBody struct {
	line    *lifeline
	ctx     context.Context //nolint:containedctx // it is that of the request, as with any body
	kind    key.Resource
	matches func(*thing) bool
	full    bool
	epoch   int
	after   uint64
	lag     time.Duration
	left    []byte
	closed  chan struct{}
	ends    time.Time
}

func (l *lifeline) openWatch(r *http.Request, kind key.Resource) *http.Response {
	q := r.URL.Query()
	after, err := strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
	if err != nil {
		panic(err)
	}
	if after < l.compacted && l.rng.IntN(2) == 0 {
		return failed(apierrors.NewResourceExpired("too old resource version"))
	}
	seconds, err := strconv.Atoi(q.Get("timeoutSeconds"))
	if err != nil {
		panic(err)
	}
	w := &watchBody{
		line: l, ctx: r.Context(), kind: kind, matches: selected(q.Get("labelSelector")), full: r.Header.Get("Accept") == "application/json",
		epoch: l.epoch, after: after, closed: make(chan struct{}), ends: time.Now().Add(time.Duration(seconds) * time.Second),
	}
	if l.weather.lag > 0 {
		w.lag = time.Duration(l.rng.Int64N(int64(l.weather.lag)))
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: w}
}

// Close implements io.Closer.
func (w *watchBody) Close() error {
	close(w.closed)
	return nil
}

// Read implements io.Reader.
func (w *watchBody) Read(b []byte) (int, error) {
	for len(w.left) == 0 {
		w.line.mu.Lock()
		err := w.next()
		changed := w.line.changed
		w.line.mu.Unlock()
		if err != nil {
			return 0, err
		}
		if len(w.left) > 0 {
			if w.lag > 0 && !w.wait(nil, w.lag) {
				return 0, errCut
			}
			break
		}
		if !w.wait(changed, time.Until(w.ends)) {
			return 0, io.EOF
		}
	}
	n := copy(b, w.left)
	w.left = w.left[n:]
	return n, nil
}

// wait waits for a change or some time; false: the watch has ended.
func (w *watchBody) wait(changed chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-timer.C:
		return changed == nil
	case <-w.ctx.Done():
		return false
	case <-w.closed:
		return false
	}
}

// next encodes what has happened since the last time.
func (w *watchBody) next() error {
	l := w.line
	switch {
	case l.dead.Load(), w.epoch != l.epoch, l.weather.dark:
		return errCut
	case l.far.Load():
		return nil
	case l.weather.hollow, !l.serves(w.kind):
		return io.EOF
	case w.after < l.compacted:
		s := apierrors.NewResourceExpired("too old resource version").ErrStatus
		b, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		w.left = fmt.Appendf(nil, `{"type":"ERROR","object":%s}`+"\n", b)
		return nil
	}
	from := sort.Search(len(l.log), func(i int) bool { return l.log[i].revision > w.after })
	for _, h := range l.log[from:] {
		w.after = h.revision
		before, after := h.before != nil && w.matches(h.before), h.after != nil && w.matches(h.after)
		o := h.after
		if o == nil {
			o = h.before
		}
		if o.id.Resource != w.kind {
			continue
		}
		var kind string
		switch {
		case before && after:
			kind = "MODIFIED"
		case after:
			kind = "ADDED"
		case before:
			kind = "DELETED"
			if h.after != nil { // as it was, at the revision of the change
				previous := *h.before
				previous.revision = h.revision
				previous.json = previous.encode()
				o = &previous
			}
		default:
			continue
		}
		w.left = fmt.Appendf(w.left, `{"type":%q,"object":%s}`+"\n", kind, o.body(w.full))
	}
	return nil
}
