package agentapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/logidentity"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxWalkBytes limits the body of a comparison or fetch request.
	maxWalkBytes = 4 << 20
	// maxFetchBytes is the size at which the response to a fetch ends early.
	maxFetchBytes = 4 << 20
	// maxFetchTime is the time after which the response to a fetch ends early: each object may cost a rendering.
	maxFetchTime = 10 * time.Second
)

// objectFetcher sends the desired objects that agents request by their keys, all of one revision. It is
// safe for concurrent use.
type objectFetcher struct {
	locations   *locations
	logIdentity *logidentity.Identity
	// sent is called with the number of sent bytes.
	sent   func(bytes int)
	logger *slog.Logger
}

// serve sends the desired objects of the requested keys.
func (a *objectFetcher) serve(w http.ResponseWriter, r *http.Request, from agentRequest) {
	keys, err := keysAsked(r)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	snapshot := a.locations.table.Snapshot()
	// Checked after the snapshot, because a removed location has no objects.
	if err := a.locations.exists(from.location, from.uid); err != nil {
		respond.Error(w, r, err)
		return
	}
	out := newFrameWriter(w, a.sent)
	if err := a.send(r.Context(), a.locations.content(from.location, from.shard, from.can), snapshot, keys, out); err != nil {
		a.logger.Info("fetch ended", "location", from.location, "error", err)
	}
}

// send sends the objects with some keys, in their order. It ends early after maxFetchBytes or maxFetchTime, so
// that the agent requests the rest again, and fails if the context ends.
func (a *objectFetcher) send(ctx context.Context, c content, state *table.Snapshot, keys []wire.Fetch, out *frameWriter) error {
	size, began := 0, time.Now()
	for _, f := range keys {
		if err := ctx.Err(); err != nil {
			return err // the missing Mark frame makes the agent discard the response
		}
		frame := wire.Frame{Del: &wire.Del{Key: f.Key, Cause: wire.Walked}}
		row := state.Get(key.OfPath(f.Key))
		if e := c.entry(row); e != nil {
			frame = c.frame(row, e)
			a.logIdentity.Deliver(frame.Put, state.Rev, "")
			size += len(row.Value)
		}
		if err := out.add(frame); err != nil {
			return err
		}
		if size > maxFetchBytes || time.Since(began) > maxFetchTime {
			break
		}
	}
	marker, rev := a.logIdentity.Position(state.Rev)
	return out.send(wire.Frame{Mark: &wire.Mark{Revision: rev, Marker: marker}})
}

// keysAsked reads the keys of a fetch request.
func keysAsked(r *http.Request) ([]wire.Fetch, error) {
	keys, err := readLines[wire.Fetch](requestbody.Lines(r, requestbody.Limits{Bytes: maxWalkBytes}), wire.MaxFetch)
	if err != nil {
		return nil, respond.BadBody(err, "fetch")
	}
	return keys, nil
}

// readLines reads JSON values up to the end of a body, and fails if there are more than
// limit.
func readLines[T any](body *json.Decoder, limit int) ([]T, error) {
	var lines []T
	for {
		var line T
		switch err := body.Decode(&line); {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", len(lines), err)
		}
		if lines = append(lines, line); len(lines) > limit {
			return nil, fmt.Errorf("more than %d lines", limit)
		}
	}
}
