package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"k8s.io/utils/lru"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

const (
	// maxWalkBytes bounds what an agent may send to ask for a page.
	maxWalkBytes = 4 << 20
	// maxFetchBytes is how large the answer to a fetch may grow before it ends early.
	maxFetchBytes = 4 << 20
	// keptIndexes is how many walks can be under way at once without being indexed
	// anew for every page.
	keptIndexes = 8
)

// walkOf is what a walk compares: the content of a location, or its reports.
type walkOf struct {
	location key.Location
	reports  bool
}

// walkIndexes keeps the indexes of walks that are under way. It is safe for
// concurrent use.
type walkIndexes struct {
	mu   sync.Mutex
	kept *lru.Cache // of *walkIndex by walkOf
}

// walkIndex is what a walk compares, at a revision.
type walkIndex struct {
	rev int64
	*wire.Index
}

func newWalkIndexes() *walkIndexes { return &walkIndexes{kept: lru.New(keptIndexes)} }

// indexAt is the index at a revision if it is kept, or else at the current one.
// It fails with the API's error when the location is gone.
func (h *Hub) indexAt(of walkOf, rev int64) (*walkIndex, error) {
	h.walks.mu.Lock()
	defer h.walks.mu.Unlock()
	if known, ok := h.walks.kept.Get(of); ok && known.(*walkIndex).rev == rev {
		return known.(*walkIndex), nil
	}
	collect := h.contentLeaves
	if of.reports {
		collect = h.reportLeaves
	}
	leaves, now := collect(of.location)
	// Asked after the leaves: a location that is gone by now has none, and the
	// agent must not take that for its content.
	if _, _, err := h.settings(of.location); err != nil {
		return nil, err
	}
	index, err := wire.NewIndex(leaves)
	if err != nil {
		return nil, fmt.Errorf("index what %q has: %w", of.location, err)
	}
	_, now = h.lineage.at(now)
	made := &walkIndex{now, index}
	h.walks.kept.Add(of, made)
	return made, nil
}

// contentLeaves are the leaves of what a location is to have.
func (h *Hub) contentLeaves(l key.Location) ([]wire.Leaf, int64) {
	rows, rev := h.table.Members(string(l))
	c := h.contentOf(l)
	leaves := make([]wire.Leaf, 0, len(rows))
	for _, row := range rows {
		if e := c.entry(row); e != nil {
			leaves = append(leaves, wire.Leaf{Key: e.key, Sum: e.sum()})
		}
	}
	return leaves, rev
}

// serveWalk answers one page of a walk.
func (h *Hub) serveWalk(w http.ResponseWriter, r *http.Request, of walkOf) {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxWalkBytes))
	var walk wire.Walk
	if err := body.Decode(&walk); err != nil {
		h.refuse(w, r, badRequest("walk: %v", err))
		return
	}
	spans, err := readLines[wire.Span](body, wire.MaxSpans)
	if err != nil {
		h.refuse(w, r, badRequest("walk: %v", err))
		return
	}
	if of.reports && walk.At == 0 {
		if err := h.settleReports(r.Context(), of.location); err != nil {
			h.refuse(w, r, err)
			return
		}
	}
	index, err := h.indexAt(of, walk.At)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	uid, settings, err := h.settings(of.location)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	all := index.Span("", "")
	marker, _ := h.lineage.at(index.rev)
	out := newFrameWriter(w)
	err = out.add(wire.Frame{Hello: &wire.Hello{
		UID: uid, Marker: marker, Revision: index.rev, Root: all.Sum, Count: all.Count,
		Continuous: h.lineage.continuous(walk.Marker, walk.After), Settings: settings,
	}})
	for _, part := range index.Answer(spans) {
		if err == nil {
			err = out.add(wire.Frame{Part: &part})
		}
	}
	if err == nil {
		err = out.send(wire.Frame{Mark: &wire.Mark{Revision: index.rev, Root: all.Sum, Count: all.Count, Marker: marker}})
	}
	if err != nil { // the agent sees no mark and does not believe the page
		h.config.Logger.Info("walk ended", "location", of.location, "error", err)
	}
}

// serveFetch sends what the location is to have of the keys that are asked for.
func (h *Hub) serveFetch(w http.ResponseWriter, r *http.Request, l key.Location) {
	keys, err := readLines[wire.Fetch](json.NewDecoder(http.MaxBytesReader(w, r.Body, maxWalkBytes)), wire.MaxFetch)
	if err != nil {
		h.refuse(w, r, badRequest("fetch: %v", err))
		return
	}
	snapshot := h.table.Snapshot()
	// Asked after the state was taken: see indexAt.
	if _, _, err := h.settings(l); err != nil {
		h.refuse(w, r, err)
		return
	}
	out := newFrameWriter(w)
	if err := h.sendKeys(h.contentOf(l), snapshot, keys, out); err != nil {
		h.config.Logger.Info("fetch ended", "location", l, "error", err)
	}
}

func (h *Hub) sendKeys(c content, state *table.Snapshot, keys []wire.Fetch, out *frameWriter) error {
	size := 0
	for _, f := range keys {
		frame := wire.Frame{Del: &wire.Del{Key: f.Key, Cause: wire.Walked}}
		row := state.Get(string(key.Objects) + "/" + f.Key)
		if e := c.entry(row); e != nil {
			frame = c.frame(row, e)
			h.lineage.deliver(frame.Put, state.Rev, "")
			size += len(row.Value)
		}
		if err := out.add(frame); err != nil {
			return err
		}
		if size > maxFetchBytes {
			break
		}
	}
	marker, rev := h.lineage.at(state.Rev)
	return out.send(wire.Frame{Mark: &wire.Mark{Revision: rev, Marker: marker}})
}

// readLines reads JSON values up to the end of a body, which may have so many.
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
