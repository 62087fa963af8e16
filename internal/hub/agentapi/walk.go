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
	// maxWalkBytes bounds the body of a walk or fetch request.
	maxWalkBytes = 4 << 20
	// maxFetchBytes is how large the answer to a fetch may grow before it ends early.
	maxFetchBytes = 4 << 20
	// walkPing is the longest silence for an agent that waits for a page.
	walkPing = 2 * time.Second
)

// collect gives the leaves of what a walk compares, and their revision. It fails with
// NotFound if the location is gone.
func (a *Server) collect(of walkOf) ([]wire.Leaf, int64, error) {
	var leaves []wire.Leaf
	var rev int64
	if of.reports {
		leaves, rev = a.reportLeaves(of.location, of.shard, of.can)
	} else {
		leaves, rev = a.contentLeaves(of.location, of.shard, of.can)
	}
	// Asked after the leaves: a location that is gone by now has none, and the agent
	// must not take that for an empty content.
	_, err := a.UID(of.location)
	// What the agent remembers is what the log shows to be its own: that the last change was
	// of what goes with a lease proves nothing later.
	_, rev = a.config.Lineage.At(rev)
	return leaves, rev, err
}

// contentLeaves are the leaves of the content of a location's shard.
func (a *Server) contentLeaves(l key.Location, shard key.Shard, can abilities) ([]wire.Leaf, int64) {
	rows, rev := a.config.Table.Members(l)
	c := a.contentOf(l, shard, can)
	leaves := make([]wire.Leaf, 0, len(rows))
	var e entry
	for _, row := range rows {
		if c.read(row, &e) {
			leaves = append(leaves, wire.Leaf{Key: e.key, Sum: e.sum()})
		}
	}
	return leaves, rev
}

// serveWalkInTurn answers one page of a walk when it is its turn. It has no deadline as
// a whole, since it may wait for the walks of others.
func (a *Server) serveWalkInTurn(w http.ResponseWriter, r *http.Request, of walkOf) {
	leave, err := a.walkers.Enter(r.Context(), fairqueue.Flow{Name: fmt.Sprint(of.walkOwner)})
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	defer leave()
	a.serveWalk(w, r, of)
}

// serveWalk answers one page of a walk.
func (a *Server) serveWalk(w http.ResponseWriter, r *http.Request, of walkOf) {
	walk, spans, err := readWalk(w, r)
	if err != nil {
		respond.Error(w, r, respond.BadBody(err, "walk"))
		return
	}
	out := newSessionWriter(w, a.config.Watch.Sent)
	defer out.end()
	index, err := a.walkIndex(r.Context(), out, of, walk)
	if err != nil {
		if !out.begun { // otherwise the agent sees no mark and discards the page
			respond.Error(w, r, err)
		}
		return
	}
	ended, err := a.answerWalk(out, index, walk, spans)
	a.walks.leave(index, ended)
	if err != nil { // the agent sees no mark and discards the page
		a.config.Logger.Info("walk ended", "location", of.location, "error", err)
	}
}

// readWalk reads the body of a walk request, for which there is a deadline.
func readWalk(w http.ResponseWriter, r *http.Request) (walk wire.Walk, spans []wire.Span, err error) {
	control := http.NewResponseController(w)
	// A writer without deadlines, as in tests, goes without. The deadline is lifted
	// afterwards: when it expires, it would end a request that is still worked on.
	_ = control.SetReadDeadline(time.Now().Add(respond.Timeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	body := requestbody.Lines(r, requestbody.Limits{Bytes: maxWalkBytes})
	if err := body.Decode(&walk); err != nil {
		return walk, nil, err
	}
	spans, err = readLines[wire.Span](body, wire.MaxSpans)
	return walk, spans, err
}

// walkIndex gets the index for a page. Meanwhile it sends empty lines, so that the agent
// knows that the hub is there.
func (a *Server) walkIndex(ctx context.Context, out *frameWriter, of walkOf, walk wire.Walk) (*walkIndex, error) {
	var index *walkIndex
	done := make(chan error, 1)
	go func() {
		if of.reports && walk.At == 0 {
			if err := a.settleReports(ctx, of.location); err != nil {
				done <- err
				return
			}
		}
		var err error
		index, err = a.walks.at(ctx, of, walk.At, func() ([]wire.Leaf, int64, error) { return a.collect(of) })
		done <- err
	}()
	ping := time.NewTicker(min(a.config.Heartbeat, walkPing))
	defer ping.Stop()
	var lost error // set when the agent is gone; the goroutine is waited for all the same
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
				a.asks(key.Session{Location: of.location, Shard: of.shard})
			}
		}
	}
}

// answerWalk sends a page; ended says that the agent needs no other.
func (a *Server) answerWalk(out *frameWriter, index *walkIndex, walk wire.Walk, spans []wire.Span) (ended bool, err error) {
	uid, settings, err := a.Settings(index.of.location)
	if err != nil {
		return true, err
	}
	all := index.Span("", "")
	marker, _ := a.config.Lineage.At(index.rev)
	err = out.add(wire.Frame{Hello: &wire.Hello{
		UID: uid, Marker: marker, Revision: index.rev, Root: all.Sum, Count: all.Count,
		Continuous: a.config.Lineage.Continuous(walk.Marker, walk.After), Settings: settings,
	}})
	// An agent that asks for fewer spans than it may has no others left, but those that
	// this answer splits.
	ended = len(spans) < wire.MaxSpans
	for _, part := range index.Answer(spans) {
		ended = ended && part.Split == nil
		if err == nil {
			err = out.add(wire.Frame{Part: &part})
		}
	}
	if err == nil {
		err = out.send(wire.Frame{Mark: &wire.Mark{Revision: index.rev, Root: all.Sum, Count: all.Count, Marker: marker}})
	}
	return ended && err == nil, err
}

// serveFetch sends what is desired of the keys that are asked for.
func (a *Server) serveFetch(w http.ResponseWriter, r *http.Request, l key.Location, shard key.Shard) {
	keys, err := keysAsked(r)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	snapshot := a.config.Table.Snapshot()
	// Asked after the snapshot was taken: see collect.
	if _, err := a.UID(l); err != nil {
		respond.Error(w, r, err)
		return
	}
	out := newFrameWriter(w, a.config.Watch.Sent)
	if err := a.sendKeys(a.contentOf(l, shard, abilitiesOf(r)), snapshot, keys, out); err != nil {
		a.config.Logger.Info("fetch ended", "location", l, "error", err)
	}
}

func (a *Server) sendKeys(c content, state *table.Snapshot, keys []wire.Fetch, out *frameWriter) error {
	size := 0
	for _, f := range keys {
		frame := wire.Frame{Del: &wire.Del{Key: f.Key, Cause: wire.Walked}}
		row := state.Get(key.OfPath(f.Key))
		if e := c.entry(row); e != nil {
			frame = c.frame(row, e)
			a.config.Lineage.Deliver(frame.Put, state.Rev, "")
			size += len(row.Value)
		}
		if err := out.add(frame); err != nil {
			return err
		}
		if size > maxFetchBytes {
			break
		}
	}
	marker, rev := a.config.Lineage.At(state.Rev)
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
