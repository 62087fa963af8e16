package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// maxWalkBytes bounds what an agent may send of its leaves.
const maxWalkBytes = 256 << 20

// serveWalk compares an agent's content with the hub's and answers with the
// frames that make them equal, at one revision.
func (h *Hub) serveWalk(w http.ResponseWriter, r *http.Request, l key.Location) {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxWalkBytes))
	var walk wire.Walk
	if err := body.Decode(&walk); err != nil {
		h.refuse(w, r, badRequest("walk: %v", err))
		return
	}
	if walk.Paged {
		h.servePagedWalk(w, r, l, walk, body)
		return
	}
	leaves, err := readLeaves(body)
	if err != nil {
		h.refuse(w, r, badRequest("walk: %v", err))
		return
	}
	rows, rev := h.table.Members(string(l))
	// Asked after the rows: a location that is gone by now has no rows, and the
	// agent must not take that for its content.
	uid, settings, err := h.settings(l)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	c := content{location: l, renderer: h}
	root, count := c.total(rows)
	marker := h.lineage.at(rev)
	out := newFrameWriter(w)
	err = out.add(wire.Frame{Hello: &wire.Hello{
		UID: uid, Marker: marker, Revision: rev, Root: root, Count: count,
		Continuous: h.lineage.continuous(walk.Marker, walk.After), Settings: settings,
	}})
	if err == nil {
		err = difference(c, rows, leaves, out.add)
	}
	if err == nil {
		err = out.send(wire.Frame{Mark: &wire.Mark{Revision: rev, Root: root, Count: count, Marker: marker}})
	}
	if err != nil { // the agent sees no mark and does not believe the walk
		h.config.Logger.Info("walk ended", "location", l, "error", err)
	}
}

// readLeaves reads the leaves of one side, which come in key order.
func readLeaves(body *json.Decoder) ([]wire.Leaf, error) {
	var leaves []wire.Leaf
	for {
		var leaf wire.Leaf
		switch err := body.Decode(&leaf); {
		case errors.Is(err, io.EOF):
			return leaves, nil
		case err != nil:
			return nil, fmt.Errorf("leaf %d: %w", len(leaves), err)
		}
		if n := len(leaves); n > 0 && leaves[n-1].Key >= leaf.Key {
			return nil, fmt.Errorf("leaf %d: key %q is not above %q", n, leaf.Key, leaves[n-1].Key)
		}
		leaves = append(leaves, leaf)
	}
}

// difference merges the two sides, both in key order.
func difference(c content, rows []*table.Row, leaves []wire.Leaf, send func(wire.Frame) error) error {
	for len(rows) > 0 || len(leaves) > 0 {
		if len(rows) == 0 || len(leaves) > 0 && leaves[0].Key < rows[0].Key[len(key.Objects)+1:] {
			if err := send(wire.Frame{Del: &wire.Del{Key: leaves[0].Key, Cause: wire.Walked}}); err != nil {
				return err
			}
			leaves = leaves[1:]
			continue
		}
		e := c.entry(rows[0])
		if e == nil {
			rows = rows[1:]
			continue
		}
		has := len(leaves) > 0 && leaves[0].Key == e.key
		if !has || leaves[0].Sum != e.sum() {
			if err := send(c.frame(rows[0], e)); err != nil {
				return err
			}
		}
		if has {
			leaves = leaves[1:]
		}
		rows = rows[1:]
	}
	return nil
}
