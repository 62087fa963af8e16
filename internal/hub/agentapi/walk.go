package agentapi

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/logidentity"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// walkPing is the longest silence while an agent waits for a page.
const walkPing = 2 * time.Second

// comparisons serve the comparisons of agents with the content of their locations, and with their
// stored reports. An agent has one request and one index at a time. A page without a Mark frame is
// incomplete, and its agent discards it. They are safe for concurrent use.
type comparisons struct {
	locations   *locations
	reports     *reportStore
	logIdentity *logidentity.Identity
	// queue gives each agent one request at a time, and indexes has the current comparisons.
	queue   *fairqueue.Queue
	indexes *walkIndexes
	// heartbeat is the longest interval of empty lines while an agent waits.
	heartbeat time.Duration
	// active is called while an agent waits for a page, and sent with the number of sent bytes.
	active func(key.Session)
	sent   func(bytes int)
	logger *slog.Logger
}

// collect returns the leaves of a comparison, and their revision. It fails with NotFound if the
// location is removed, and ends with the context.
func (a *comparisons) collect(ctx context.Context, target walkOf) ([]wire.Leaf, int64, error) {
	collect := a.contentLeaves
	if target.reports {
		collect = a.reports.leaves
	}
	leaves, rev, err := collect(ctx, target.agentRequest)
	if err != nil {
		return nil, 0, err
	}
	// Checked after the leaves: a removed location has none, which the agent must not take for an
	// empty content.
	err = a.locations.exists(target.location, target.uid)
	// The agent stores the revision as a proof of the log. Keys with a lease expire and prove
	// nothing later, so a revision of such a key is replaced.
	_, rev = a.logIdentity.Position(rev)
	return leaves, rev, err
}

// contentLeaves returns the leaves of the content of a location's shard.
func (a *comparisons) contentLeaves(ctx context.Context, from agentRequest) ([]wire.Leaf, int64, error) {
	rows, rev := a.locations.table.Members(from.location)
	c := a.locations.content(from.location, from.shard, from.can)
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

// serveInTurn serves one page of a comparison after the location's other requests. It has no
// deadline, because it may wait for the comparisons of others.
func (a *comparisons) serveInTurn(w http.ResponseWriter, r *http.Request, target walkOf) {
	leave, err := a.queue.Enter(r.Context(), fairqueue.Flow{Name: fmt.Sprint(target.owner())})
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	defer leave()
	a.serve(w, r, target)
}

// serve serves one page of a comparison.
func (a *comparisons) serve(w http.ResponseWriter, r *http.Request, target walkOf) {
	walk, spans, err := readWalk(w, r)
	if err != nil {
		respond.Error(w, r, respond.BadBody(err, "walk"))
		return
	}
	out := newSessionWriter(w, a.sent)
	defer out.end()
	index, err := a.index(r.Context(), out, target, walk)
	if err != nil {
		if !out.begun { // otherwise the missing Mark frame makes the agent discard the page
			respond.Error(w, r, err)
		}
		return
	}
	ended, err := a.answer(out, index, walk, spans)
	a.indexes.leave(index, ended)
	if err != nil { // the missing Mark frame makes the agent discard the page
		a.logger.Info("walk ended", "location", target.location, "error", err)
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

// index returns the index for a page. While it waits, it sends empty lines, which show the agent
// that the hub is alive.
func (a *comparisons) index(ctx context.Context, out *frameWriter, target walkOf, walk wire.Walk) (*walkIndex, error) {
	var index *walkIndex
	done := make(chan error, 1)
	go func() {
		if target.reports && walk.Revision == 0 {
			if err := a.reports.awaitPending(ctx, target.location); err != nil {
				done <- err
				return
			}
		}
		var err error
		index, err = a.indexes.get(ctx, target, walk.Revision, func() ([]wire.Leaf, int64, error) { return a.collect(ctx, target) })
		done <- err
	}()
	ping := time.NewTicker(min(a.heartbeat, walkPing))
	defer ping.Stop()
	var lost error // set if the agent has disconnected; the goroutine must still end
	for {
		select {
		case err := <-done:
			if err == nil && lost != nil {
				a.indexes.leave(index, true)
			}
			return index, cmp.Or(lost, err)
		case <-ping.C:
			if lost == nil {
				lost = out.blank()
				a.active(target.session())
			}
		}
	}
}

// answer sends a page; ended reports whether the agent needs no further page.
func (a *comparisons) answer(out *frameWriter, index *walkIndex, walk wire.Walk, spans []wire.Span) (ended bool, err error) {
	uid, settings, err := a.locations.settings(index.target.location)
	if err != nil {
		return true, err
	}
	all := index.Span("", "")
	marker, _ := a.logIdentity.Position(index.rev)
	err = out.add(wire.Frame{Hello: &wire.Hello{
		UID: uid, Marker: marker, Revision: index.rev, Root: all.Sum, Count: all.Count,
		Continuous: a.logIdentity.Continuous(walk.Marker, walk.After), Settings: settings, KeepsAggregated: true,
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
