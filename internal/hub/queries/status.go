package queries

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// statusPiece is the number of bytes of a SpaceStatus that are sent together.
const statusPiece = 64 << 10

// statusServer responds with the status of a space. It is safe for concurrent use.
type statusServer struct {
	table   *table.Table
	objects *objectStatuses
	totals  *placementTotals
	pruned  *prune.Index
	// conditions returns the stream conditions of a request's access.
	conditions func(ctx context.Context) []table.Condition
	logger     *slog.Logger
}

// write writes the filtered SpaceStatus of a space. It writes one object at a time, since the
// complete status may exceed the hub's memory.
func (s *statusServer) write(w http.ResponseWriter, r *http.Request, rights *rights, f statusFilter) {
	p, err := pageOf(r.URL.Query())
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	snapshot := s.table.Snapshot()
	status := SpaceStatus{Space: rights.space, Placements: []PlacementTotal{}, Objects: []ObjectStatus{}}
	if p.first() {
		status = s.head(r.Context(), snapshot, rights, f)
	}
	head, err := json.Marshal(status)
	if err != nil {
		s.logger.Error("encode the status of a space", "space", rights.space, "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Objects come last, so they can be written before the closing brackets.
	out := bufio.NewWriterSize(w, statusPiece)
	_, _ = out.Write(bytes.TrimSuffix(head, []byte("]}"))) // write errors persist until Flush
	separator, next := "", ""
	for one := range s.objects.page(r.Context(), snapshot, rights.space, f, p, &next) {
		text, err := json.Marshal(one)
		if err != nil || r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // a truncated response must not look complete
		}
		_, _ = out.WriteString(separator)
		_, _ = out.Write(text)
		separator = ","
	}
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = out.WriteString("]")
	if next != "" {
		_, _ = out.WriteString(`,"continue":"` + next + `"`)
	}
	_, _ = out.WriteString("}\n")
	_ = out.Flush() // errors of the connection are ignored
}

// head returns the SpaceStatus of a space without its objects. It is incomplete if the context ends.
func (s *statusServer) head(ctx context.Context, state table.Reader, rights *rights, f statusFilter) SpaceStatus {
	space := rights.space
	wants := func(name key.PlacementRef) bool {
		return name == f.placement || f.placement == "" && f.lists(key.Identity{Resource: key.Placements, Name: string(name)})
	}
	totals, omitted := s.totals.ofSpace(ctx, placement.NewBudget(ctx, maxTotals), state, rights, wants)
	ofRoot := slices.DeleteFunc(s.totals.ofRoot(ctx, state, rights), func(p PlacementTotal) bool { return !wants(p.Name) })
	totals = slices.Concat([]PlacementTotal{}, totals, ofRoot) // never null
	for i := range totals {
		totals[i].Errors = slices.DeleteFunc(totals[i].Errors, func(e v1alpha1.PlacementError) bool {
			o, err := key.ParseIn(space, e.Object)
			return e.Space == "" && (err != nil || !f.lists(o.Identity)) // objects of other spaces are not named
		})
	}
	return SpaceStatus{
		Space: space, Placements: totals, OmittedPlacements: omitted, Waiting: waiting(s.pruned, rights), LeftCounts: s.objects.leftCounts(ctx, state, space, f), Objects: []ObjectStatus{},
	}
}
