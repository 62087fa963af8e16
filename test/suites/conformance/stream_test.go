package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// stream is an open watch.
type stream struct {
	side   *side
	cancel context.CancelFunc
	events chan map[string]any // closed at the end of the stream
}

// watch opens a watch. If the server rejects it, the transcript contains the response, and the
// stream has no events.
func (s *side) watch(path string, headers ...string) *stream {
	ctx, cancel := context.WithCancel(s.t.Context())
	w := &stream{side: s, cancel: cancel, events: make(chan map[string]any, 1000)}
	s.mu.Lock()
	s.streams = append(s.streams, w)
	s.mu.Unlock()
	s.say("WATCH %s", path)
	resp, err := s.send(ctx, http.MethodGet, path, "", headers...) //nolint:bodyclose // the reading goroutine below closes it
	if err != nil {
		s.say("  no answer")
		close(w.events)
		return w
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		a := answer{code: resp.StatusCode, header: resp.Header}
		if json.NewDecoder(resp.Body).Decode(&a.object) != nil {
			a.object = nil
		}
		s.log.answer(a)
		close(w.events)
		return w
	}
	s.say("  %d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	go func() {
		defer resp.Body.Close()
		defer close(w.events)
		for decoder := json.NewDecoder(resp.Body); ; {
			decoder.UseNumber()
			var event map[string]any
			if decoder.Decode(&event) != nil {
				return
			}
			select {
			case w.events <- event:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}

// event returns the next event. If there is none, it records that and returns nil.
func (w *stream) event() map[string]any {
	select {
	case event, ok := <-w.events:
		if !ok {
			w.side.say("  the watch ended")
		}
		return event
	case <-time.After(timeout):
		w.side.say("  nothing came")
		return nil
	}
}

// next records and returns the next event, or nil.
func (w *stream) next() map[string]any {
	event := w.event()
	if event == nil {
		return nil
	}
	w.side.say("  %v", event["type"])
	object, _ := event["object"].(map[string]any)
	if object["kind"] == "Table" {
		w.side.log.table(answer{object: object})
		return event
	}
	w.side.log.value(object)
	return event
}

// take records n events.
func (w *stream) take(n int) {
	for range n {
		if w.next() == nil {
			return
		}
	}
}

// names records the types and object names of events, up to an event of the named object. Use it
// for watches whose objects do not matter.
func (w *stream) names(until string) {
	for {
		event := w.event()
		if event == nil {
			return
		}
		a := answer{object: event}
		w.side.say("  %v %s", event["type"], a.text("object", "metadata", "name"))
		if a.text("object", "metadata", "name") == until || event["type"] == "ERROR" {
			return
		}
	}
}

// rest records events until the stream ends.
func (w *stream) rest() {
	for w.next() != nil {
	}
}

func (w *stream) close() { w.cancel() }
