package queries

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
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

// writeStatus writes the filtered SpaceStatus of a space. It writes one object at a time, since the
// complete status may exceed the hub's memory.
func (q *Server) writeStatus(w http.ResponseWriter, r *http.Request, rights *rights, f statusFilter) {
	p, err := pageOf(r.URL.Query())
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	snapshot := q.config.Table.Snapshot()
	status := SpaceStatus{Space: rights.space, Placements: []PlacementTotal{}, Objects: []ObjectStatus{}}
	if p.first() {
		status = q.head(r.Context(), snapshot, rights, f)
	}
	head, err := json.Marshal(status)
	if err != nil {
		q.config.Logger.Error("encode the status of a space", "space", rights.space, "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Objects come last, so they can be written before the closing brackets.
	out := bufio.NewWriterSize(w, statusPiece)
	_, _ = out.Write(bytes.TrimSuffix(head, []byte("]}"))) // write errors persist until Flush
	separator, next := "", ""
	for one := range q.objectStatuses(r.Context(), snapshot, rights.space, f, p, &next) {
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
func (q *Server) head(ctx context.Context, state table.Reader, rights *rights, f statusFilter) SpaceStatus {
	s := rights.space
	totals := slices.DeleteFunc(slices.Concat(q.placementTotals(ctx, state, rights, s), q.totalsOfRoot(ctx, state, rights)), func(p PlacementTotal) bool {
		return f.placement != "" && p.Name != f.placement || f.placement == "" && !f.lists(key.Identity{Resource: key.Placements, Name: string(p.Name)})
	})
	for i := range totals {
		totals[i].Errors = slices.DeleteFunc(totals[i].Errors, func(e v1alpha1.PlacementError) bool {
			o, err := key.ParseIn(s, e.Object)
			return e.Space == "" && (err != nil || !f.lists(o.Identity)) // objects of other spaces are not named
		})
	}
	return SpaceStatus{
		Space: s, Placements: totals, Waiting: q.waiting(rights), LeftCounts: q.leftOf(ctx, state, s, f), Objects: []ObjectStatus{},
	}
}

// objectStatuses returns the selected objects of a page in order of keys: first placed objects,
// then objects that are no longer assigned but still exist at locations. It sets next to the token
// of the next page, if there is one. It ends with the context.
func (q *Server) objectStatuses(ctx context.Context, state *table.Snapshot, s key.Space, f statusFilter, p page, next *string) iter.Seq[ObjectStatus] {
	stale := staleIn(state)
	paths, left := q.leftStatuses(ctx, state, s, f, stale)
	n := 0
	return func(yield func(ObjectStatus) bool) {
		// show yields an object. If the page is full, the next page begins with it instead.
		show := func(isLeft bool, position string, status ObjectStatus) bool {
			if p.limit > 0 && n == p.limit {
				*next = token(isLeft, position)
				return false
			}
			n++
			return yield(status)
		}
		more := p.left || q.placedStatuses(ctx, state, s, f, p.from, func(row *table.Row, o key.Object) bool {
			status := q.objectStatus(ctx, state, o, row, f, stale, left[o.Path()])
			return status == nil || show(false, row.Key, *status)
		})
		for _, path := range paths {
			more = more && ctx.Err() == nil
			o, err := key.ParsePath(path)
			if places := left[path]; more && err == nil && places != nil && (!p.left || path >= p.from) && !q.isPlaced(ctx, state, o, f, stale) {
				more = show(true, path, ObjectStatus{Object: o.Identity.String(), Places: places})
			}
		}
	}
}

// placedStatuses calls fn for the selected rows of a space's objects, from a key on, until fn
// returns false, or the context ends. It then returns false, too.
func (q *Server) placedStatuses(ctx context.Context, state *table.Snapshot, s key.Space, f statusFilter, from string, fn func(*table.Row, key.Object) bool) bool {
	more, prefix := true, key.SpacePrefix(s)+f.object
	state.AscendFrom(max(from, prefix), func(row *table.Row) bool {
		if !strings.HasPrefix(row.Key, prefix) {
			return false
		}
		if o, err := key.ParseObject(row.Key); err == nil && f.wants(o.Identity) {
			more = fn(row, o)
		}
		more = more && ctx.Err() == nil
		return more
	})
	return more
}

// isPlaced reports whether an object is listed among placed objects.
func (q *Server) isPlaced(ctx context.Context, state table.Reader, o key.Object, f statusFilter, stale func(key.Location) bool) bool {
	row := state.Get(o.Key())
	if row == nil {
		return false
	}
	m, _ := row.In.(*placement.Membership)
	return m != nil || len(q.places(ctx, state, o, row, f, stale)) > 0
}

// objectStatus returns the status of an object of a space, with locations that it is no longer
// assigned to; nil if no row is selected.
func (q *Server) objectStatus(ctx context.Context, state table.Reader, o key.Object, row *table.Row, f statusFilter, stale func(key.Location) bool, left []PlaceStatus) *ObjectStatus {
	status := ObjectStatus{Object: o.Identity.String(), Generation: row.Meta.Generation, Places: q.places(ctx, state, o, row, f, stale)}
	if m, _ := row.In.(*placement.Membership); m == nil && len(status.Places) == 0 {
		return nil // its remaining locations are listed separately
	}
	status.Places = append(status.Places, left...)
	if len(status.Places) == 0 && !f.all() {
		return nil
	}
	return &status
}

// places returns the selected locations that an object is assigned to, including those that refuse
// it, until the context ends.
func (q *Server) places(ctx context.Context, state table.Reader, o key.Object, row *table.Row, f statusFilter, stale func(key.Location) bool) (all []PlaceStatus) {
	add := func(ps PlaceStatus) {
		if f.shows(&ps) {
			all = append(all, ps)
		}
	}
	if m, ok := row.In.(*placement.Membership); ok && !m.Leaves() { // otherwise it is listed with the remaining locations
		for _, p := range m.Places() {
			if ctx.Err() != nil {
				return all
			}
			if f.placed(m, p.Location) {
				add(q.placeStatus(state, o, row, p, stale(p.Location)))
			}
		}
		for _, l := range m.Refused() {
			if f.placed(m, l) {
				add(placeStatusOf(l, objectstate.Refused(m.Refusal(l))))
			}
		}
	}
	if f.placement == "" { // no Placement is selected
		unknown := placement.UnknownLocations(state, o, row)
		for _, l := range slices.Sorted(maps.Keys(unknown)) {
			add(placeStatusOf(l, objectstate.UnknownLocation(unknown[l])))
		}
	}
	return all
}
