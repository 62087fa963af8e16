package agentapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// endingContext ends after some calls of Err.
type endingContext struct {
	context.Context
	left int
}

// Err implements context.Context.
func (c *endingContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestContentEndsWithItsRequest: no more objects of a location are rendered after the request has ended, for a
// session, a comparison, or a fetch.
func TestContentEndsWithItsRequest(t *testing.T) {
	const objects, most = 100, 10
	for what, work := range map[string]func(context.Context, *Server) error{
		"session": func(ctx context.Context, h *Server) error {
			rows, _ := h.config.Table.Members("l0000")
			_, _, err := h.locations.content("l0000", key.Shard{}, abilities{}).total(ctx, rows)
			return err
		},
		"comparison": func(ctx context.Context, h *Server) error {
			_, _, err := h.comparisons.collect(ctx, walkOf{agentRequest: walkedRequest("l0000")})
			return err
		},
		"fetch": func(ctx context.Context, h *Server) error {
			keys, _ := keysOf(h)
			return h.objects.send(ctx, h.locations.content("l0000", key.Shard{}, abilities{}), h.config.Table.Snapshot(), keys, newFrameWriter(httptest.NewRecorder(), func(int) {}))
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := walkedServer(t, objects, 1)
			if err := work(&endingContext{t.Context(), most}, h); !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			if _, rendered := keysOf(h); rendered > most {
				t.Errorf("%d objects were rendered, want %d at most", rendered, most)
			}
		})
	}
}

// keysOf returns the keys of the content of location l0000, and the number of rendered objects.
func keysOf(h *Server) (keys []wire.Fetch, rendered int) {
	rows, _ := h.config.Table.Members("l0000")
	for _, row := range rows {
		path, _ := key.PathOf(row.Key)
		keys = append(keys, wire.Fetch{Key: path})
		if row.Rendered.Load() != nil {
			rendered++
		}
	}
	return keys, rendered
}

// slowWriter takes some time for each write.
type slowWriter struct {
	*httptest.ResponseRecorder
	time time.Duration
}

// Write implements http.ResponseWriter.
func (w slowWriter) Write(p []byte) (int, error) {
	<-time.After(w.time)
	return w.ResponseRecorder.Write(p)
}

// TestFetchIsBounded: the response to a fetch that takes too long ends early, with a mark, so that the agent uses
// it and requests the rest again.
func TestFetchIsBounded(t *testing.T) {
	const objects = 100
	h := walkedServer(t, objects, 1)
	keys, _ := keysOf(h)
	state := h.config.Table.Snapshot()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		answer := httptest.NewRecorder()
		out := newFrameWriter(slowWriter{answer, time.Second}, func(int) {})
		if err := h.objects.send(t.Context(), h.locations.content("l0000", key.Shard{}, abilities{}), state, keys, out); err != nil {
			t.Fatal(err)
		}
		objectCount, markCount := 0, 0
		decoder := wire.NewDecoder(answer.Body)
		for {
			var f wire.Frame
			if decoder.Decode(&f) != nil {
				break
			}
			if f.Put != nil {
				objectCount++
			}
			if f.Mark != nil {
				markCount++
			}
		}
		if took := time.Since(began); objectCount == 0 || objectCount >= objects || markCount != 1 || took > 2*maxFetchTime {
			t.Errorf("after %s there are %d objects and %d marks", took, objectCount, markCount)
		}
	})
}
