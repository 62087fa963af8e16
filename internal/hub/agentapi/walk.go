package agentapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fairqueue"
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
	// walkPing is the longest silence while an agent waits for a page.
	walkPing = 2 * time.Second
)

// collect returns the leaves of a comparison, and their revision. It fails with NotFound if the
// location is removed, and ends with the context.
func (a *Server) collect(ctx context.Context, target walkOf) ([]wire.Leaf, int64, error) {
	collect := a.contentLeaves
	if target.reports {
		collect = a.reportLeaves
	}
	leaves, rev, err := collect(ctx, target.location, target.shard, target.can)
	if err != nil {
		return nil, 0, err
	}
	// Checked after the leaves: a removed location has none, which the agent must not take for an
	// empty content.
	_, err = a.UID(target.location)
	// The agent stores the revision as a proof of the log. Keys with a lease expire and prove
	// nothing later, so a revision of such a key is replaced.
	_, rev = a.config.LogIdentity.Position(rev)
	return leaves, rev, err
}

// contentLeaves returns the leaves of the content of a location's shard.
func (a *Server) contentLeaves(ctx context.Context, l key.Location, shard key.Shard, can abilities) ([]wire.Leaf, int64, error) {
	rows, rev := a.config.Table.Members(l)
	c := a.contentOf(l, shard, can)
	leaves := make([]wire.Leaf, 0, len(rows))
	var e entry
	for _, row := range rows {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if c.read(row, &e) {
			leaves = append(leaves, wire.Leaf{Key: e.key, Sum: e.sum()})
		}
	}
	return leaves, rev, nil
}

// serveWalkInTurn serves one page of a comparison after the location's other requests. It has no
// deadline, because it may wait for the comparisons of others.
func (a *Server) serveWalkInTurn(w http.ResponseWriter, r *http.Request, target walkOf) {
	leave, err := a.walkers.Enter(r.Context(), fairqueue.Flow{Name: fmt.Sprint(target.walkOwner)})
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	defer leave()
	a.serveWalk(w, r, target)
}

// serveWalk serves one page of a comparison.
func (a *Server) serveWalk(w http.ResponseWriter, r *http.Request, target walkOf) {
	walk, spans, err := readWalk(w, r)
	if err != nil {
		respond.Error(w, r, respond.BadBody(err, "walk"))
		return
	}
	out := newSessionWriter(w, a.config.Watch.Sent)
	defer out.end()
	index, err := a.walkIndex(r.Context(), out, target, walk)
	if err != nil {
		if !out.begun { // otherwise the missing Mark frame makes the agent discard the page
			respond.Error(w, r, err)
		}
		return
	}
	ended, err := a.answerWalk(out, index, walk, spans)
	a.walks.leave(index, ended)
	if err != nil { // the missing Mark frame makes the agent discard the page
		a.config.Logger.Info("walk ended", "location", target.location, "error", err)
	}
}

// readWalk reads the body of a comparison request, with a deadline.
func readWalk(w http.ResponseWriter, r *http.Request) (walk wire.Walk, spans []wire.Span, err error) {
	control := http.NewResponseController(w)
	// Writers in tests have no deadlines. The deadline is removed afterwards, because it would end
	// the request while it is served.
	_ = control.SetReadDeadline(time.Now().Add(respond.Timeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	body := requestbody.Lines(r, requestbody.Limits{Bytes: maxWalkBytes})
	if err := body.Decode(&walk); err != nil {
		return walk, nil, err
	}
	spans, err = readLines[wire.Span](body, wire.MaxSpans)
	return walk, spans, err
}

// walkIndex returns the index for a page. While it waits, it sends empty lines, which show the agent
// that the hub is alive.
func (a *Server) walkIndex(ctx context.Context, out *frameWriter, target walkOf, walk wire.Walk) (*walkIndex, error) {
	var index *walkIndex
	done := make(chan error, 1)
	go func() {
		if target.reports && walk.Revision == 0 {
			if err := a.settleReports(ctx, target.location); err != nil {
				done <- err
				return
			}
		}
		var err error
		index, err = a.walks.get(ctx, target, walk.Revision, func() ([]wire.Leaf, int64, error) { return a.collect(ctx, target) })
		done <- err
	}()
	ping := time.NewTicker(min(a.config.Heartbeat, walkPing))
	defer ping.Stop()
	var lost error // set if the agent has disconnected; the goroutine must still end
	for {
		select {
		case err := <-done:
			if err == nil && lost != nil {
				a.walks.leave(index, true)
			}
			return index, cmp.Or(lost, err)
		case <-ping.C:
			if lost == nil {
				lost = out.blank()
				a.recordRequest(key.Session{Location: target.location, Shard: target.shard})
			}
		}
	}
}

// answerWalk sends a page; ended reports whether the agent needs no further page.
func (a *Server) answerWalk(out *frameWriter, index *walkIndex, walk wire.Walk, spans []wire.Span) (ended bool, err error) {
	uid, settings, err := a.Settings(index.target.location)
	if err != nil {
		return true, err
	}
	all := index.Span("", "")
	marker, _ := a.config.LogIdentity.Position(index.rev)
	err = out.add(wire.Frame{Hello: &wire.Hello{
		UID: uid, Marker: marker, Revision: index.rev, Root: all.Sum, Count: all.Count,
		Continuous: a.config.LogIdentity.Continuous(walk.Marker, walk.After), Settings: settings, KeepsAggregated: true,
	}})
	// An agent that requests fewer spans than the limit has only these, and those that this
	// response splits.
	ended = len(spans) < wire.MaxSpans
	for _, answer := range index.Answer(spans) {
		ended = ended && answer.Split == nil
		if err == nil {
			err = out.add(wire.Frame{RangeDifference: &answer})
		}
	}
	if err == nil {
		err = out.send(wire.Frame{Mark: &wire.Mark{Revision: index.rev, Root: all.Sum, Count: all.Count, Marker: marker}})
	}
	return ended && err == nil, err
}

// serveFetch sends the desired objects of the requested keys.
func (a *Server) serveFetch(w http.ResponseWriter, r *http.Request, l key.Location, shard key.Shard) {
	keys, err := keysAsked(r)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	snapshot := a.config.Table.Snapshot()
	// Checked after the snapshot, see collect.
	if _, err := a.UID(l); err != nil {
		respond.Error(w, r, err)
		return
	}
	out := newFrameWriter(w, a.config.Watch.Sent)
	if err := a.sendKeys(r.Context(), a.contentOf(l, shard, abilitiesOf(r)), snapshot, keys, out); err != nil {
		a.config.Logger.Info("fetch ended", "location", l, "error", err)
	}
}

// sendKeys sends the objects with some keys, in their order. It ends early after maxFetchBytes or maxFetchTime, so
// that the agent requests the rest again, and fails if the context ends.
func (a *Server) sendKeys(ctx context.Context, c content, state *table.Snapshot, keys []wire.Fetch, out *frameWriter) error {
	size, began := 0, time.Now()
	for _, f := range keys {
		if err := ctx.Err(); err != nil {
			return err // the missing Mark frame makes the agent discard the response
		}
		frame := wire.Frame{Del: &wire.Del{Key: f.Key, Cause: wire.Walked}}
		row := state.Get(key.OfPath(f.Key))
		if e := c.entry(row); e != nil {
			frame = c.frame(row, e)
			a.config.LogIdentity.Deliver(frame.Put, state.Rev, "")
			size += len(row.Value)
		}
		if err := out.add(frame); err != nil {
			return err
		}
		if size > maxFetchBytes || time.Since(began) > maxFetchTime {
			break
		}
	}
	marker, rev := a.config.LogIdentity.Position(state.Rev)
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
