package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// event is one event of a watch, and when it arrived.
type event struct {
	kind    string // ADDED, MODIFIED, DELETED
	name    string
	object  []byte
	arrived time.Time
}

// watch is an open watch of one collection from now on.
type watch struct {
	events <-chan event
	cancel context.CancelFunc
	done   sync.WaitGroup
	err    error // why it ended; to be read after events is closed
	// limit bounds waiting for an event.
	limit time.Duration
}

// maxEvents is how many events may wait to be looked at; their times are kept.
const maxEvents = 1 << 16

// watch opens a watch of the collection at path, without the objects that exist already.
func (c *client) watch(ctx context.Context, path string) (*watch, error) {
	return c.watchThrough(ctx, path, func(body io.Reader) io.Reader { return body })
}

// watchThrough is watch, of which the answer is read in another way.
func (c *client) watchThrough(ctx context.Context, path string, through func(io.Reader) io.Reader) (*watch, error) {
	list, err := c.get(ctx, path+"?limit=1")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	body, err := c.open(ctx, http.MethodGet, path+"?watch=true&resourceVersion="+gjson.GetBytes(list, "metadata.resourceVersion").String(), "", nil)
	if err != nil {
		cancel()
		return nil, err
	}
	events := make(chan event, maxEvents)
	w := &watch{events: events, cancel: cancel, limit: timeLimit}
	w.done.Go(func() {
		defer close(events)
		defer body.Close()
		w.err = follow(through(body), events)
	})
	return w, nil
}

// follow passes on events until the body ends.
func follow(body io.Reader, to chan<- event) error {
	dec := json.NewDecoder(body)
	for {
		var line struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := dec.Decode(&line); err != nil {
			return err
		}
		now := time.Now()
		if line.Type == "ERROR" {
			return fmt.Errorf("watch: %s", gjson.GetBytes(line.Object, "message"))
		}
		select {
		case to <- event{kind: line.Type, name: gjson.GetBytes(line.Object, "metadata.name").String(), object: line.Object, arrived: now}:
		default:
			return errors.New("watch: too many events wait to be looked at")
		}
	}
}

// close ends the watch and waits until it has.
func (w *watch) close() {
	w.cancel()
	w.done.Wait()
}

// timeLimit bounds a wait for an event that should happen within seconds.
const timeLimit = 2 * time.Minute

// until waits for the first event for which is returns true, and returns when that event
// arrived.
func (w *watch) until(ctx context.Context, what string, is func(event) bool) (time.Time, error) {
	timeout := time.NewTimer(w.limit)
	defer timeout.Stop()
	for {
		select {
		case e, open := <-w.events:
			if !open {
				return time.Time{}, fmt.Errorf("wait for %s: %w", what, w.err)
			}
			if is(e) {
				return e.arrived, nil
			}
		case <-timeout.C:
			return time.Time{}, fmt.Errorf("wait for %s: not so after %s", what, w.limit)
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
}

// count waits until n events of a kind have arrived, and returns when the last did.
func (w *watch) count(ctx context.Context, kind string, n int) (time.Time, error) {
	seen := 0
	last, err := w.until(ctx, fmt.Sprintf("%d times %s", n, kind), func(e event) bool {
		if e.kind == kind {
			seen++
		}
		return seen == n
	})
	if err != nil {
		err = fmt.Errorf("%w (%d seen)", err, seen)
	}
	return last, err
}
