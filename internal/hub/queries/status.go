package queries

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// statusPiece is the number of bytes of a SpaceStatus that are sent together.
const statusPiece = 64 << 10

// page is the requested page of objects: about limit objects (0 for all), from the path in the
// continue token on.
type page struct {
	limit int
	// from is the path at which the page begins: among placed objects or, if left is set, among
	// objects that are no longer assigned.
	from string
	left bool
}

// pageOf parses the parameters limit and continue.
func pageOf(query url.Values) (p page, err error) {
	if text := query.Get("limit"); text != "" {
		if p.limit, err = strconv.Atoi(text); err != nil || p.limit < 0 {
			return p, respond.BadRequest("limit %q: want a number of objects", text)
		}
	}
	token := query.Get("continue")
	if token == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	kind, from, ok := strings.Cut(string(text), ":")
	if err != nil || !ok || from == "" || kind != "placed" && kind != "left" {
		return p, respond.BadRequest("continue %q: not what an answer has named", token)
	}
	p.from, p.left = from, kind == "left"
	return p, nil
}

// first reports whether it is the first page.
func (p page) first() bool { return p.from == "" }

// token returns the continue token for a path.
func token(left bool, path string) string {
	kind := "placed"
	if left {
		kind = "left"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + path))
}

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
	totals := slices.DeleteFunc(slices.Concat(s.totals.ofSpace(ctx, state, rights, space), s.totals.ofRoot(ctx, state, rights)), func(p PlacementTotal) bool {
		return f.placement != "" && p.Name != f.placement || f.placement == "" && !f.lists(key.Identity{Resource: key.Placements, Name: string(p.Name)})
	})
	for i := range totals {
		totals[i].Errors = slices.DeleteFunc(totals[i].Errors, func(e v1alpha1.PlacementError) bool {
			o, err := key.ParseIn(space, e.Object)
			return e.Space == "" && (err != nil || !f.lists(o.Identity)) // objects of other spaces are not named
		})
	}
	return SpaceStatus{
		Space: space, Placements: totals, Waiting: waiting(s.pruned, rights), LeftCounts: s.objects.leftCounts(ctx, state, space, f), Objects: []ObjectStatus{},
	}
}
