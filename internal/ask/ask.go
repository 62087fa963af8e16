// Package ask answers what is asked about a space that no object of it answers: what of
// it is where, why an object is or is not at a location, and which removals wait.
//
// It only reads, and must never decide by itself how far an object is: judge does.
package ask

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/judge"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/leftout"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/prune"
	"orrery.dev/orrery/internal/release"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/tally"
	"orrery.dev/orrery/internal/view"
)

// SpaceStatus answers GET /ask/v1/spaces/NAME/status: what of a space is where.
type SpaceStatus struct {
	Space      key.Space        `json:"space"`
	Placements []PlacementTotal `json:"placements"`
	// Waiting are the removals that wait for a confirmation, by Placement.
	Waiting []prune.Waiting `json:"waiting,omitempty"`
	// LeftCounts are of all locations that the space's objects left, or are to leave.
	v1alpha1.LeftCounts
	Objects []ObjectStatus `json:"objects"`
}

// PlacementTotal adds up one Placement.
type PlacementTotal struct {
	Name      string `json:"name"`
	Suspended bool   `json:"suspended,omitempty"`
	// Problems are why parts of its spec can't be used.
	Problems []string `json:"problems,omitempty"`
	// PartOf says which Helm releases it matches some objects of, and not all.
	PartOf []string `json:"partOf,omitempty"`
	// StatusLeftOut says which statuses that it asks for are not returned.
	StatusLeftOut string `json:"statusLeftOut,omitempty"`
	Locations     int64  `json:"locations"`
	Objects       int64  `json:"objects"`
	v1alpha1.Counts
	Errors []v1alpha1.PlacementError `json:"errors,omitempty"`
}

// ObjectStatus is one placed object.
type ObjectStatus struct {
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object     string        `json:"object"`
	Generation int64         `json:"generation,omitempty"`
	Places     []PlaceStatus `json:"places"`
}

// PlaceStatus is one object at one location.
type PlaceStatus struct {
	Location key.Location `json:"location"`
	// State is the report's, or Pending while the location has not reported
	// the object as it is now.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Since   string `json:"since,omitempty"`
	// Stale says that the location is away, see judge.Away.
	Stale bool `json:"stale,omitempty"`
	// Unassigned says that the location is not to have the object: it removes it, or
	// reports why it stays.
	Unassigned bool `json:"unassigned,omitempty"`
	// StatusLeftOut says why the status there is not returned, though it is asked for.
	StatusLeftOut string `json:"statusLeftOut,omitempty"`
}

// statusPiece is how much of a SpaceStatus is sent at once, in bytes.
const statusPiece = 64 << 10

// Why answers GET /ask/v1/spaces/NAME/why?object=PATH&location=L: how it was
// decided whether an object goes to a location, and what became of it.
type Why struct {
	Decision placement.Explanation `json:"decision"`
	// Place is what the location reports; nil if the object is not assigned, and not
	// there either.
	Place *PlaceStatus `json:"place,omitempty"`
	// Digest is what the location is to have, Applied what it has.
	Digest  string `json:"digest,omitempty"`
	Applied string `json:"applied,omitempty"`
}

// Config is what a Server needs.
type Config struct {
	// Table has the objects and reports, and Digest what locations are to have of them.
	Table  *table.Table
	Digest judge.Digest
	// What is counted and waits.
	Tally    *tally.Tally
	Pruned   *prune.Index
	Releases *release.Index
	LeftOut  *leftout.Index
	// Committed waits until the table shows what was acknowledged to anybody before.
	Committed func(context.Context) error
	Logger    *slog.Logger
}

// Server answers questions. It is safe for concurrent use.
type Server struct{ config Config }

// New makes a Server.
func New(config Config) *Server { return &Server{config} }

// ServeHTTP answers a question about the space whose root the request is for.
func (q *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root, question := route.Of(r.URL.Path)
	s := key.Space(root.Name)
	if err := q.config.Committed(r.Context()); err != nil {
		respond.Error(w, r, err)
		return
	}
	if !space.Exists(q.config.Table, s) {
		respond.Error(w, r, apierrors.NewNotFound(schema.GroupResource{Group: key.Spaces.Group, Resource: key.Spaces.Resource}, root.Name))
		return
	}
	switch {
	case r.Method != http.MethodGet:
		respond.Error(w, r, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "questions"}, strings.ToLower(r.Method)))
	case question == route.Status:
		f := statusFilterOf(r.URL.Query())
		if err := q.known(q.config.Table.Snapshot(), s, f.object); err != nil {
			respond.Error(w, r, err)
			return
		}
		q.writeStatus(r.Context(), w, s, f)
	case question == route.Waiting:
		respond.JSON(w, q.config.Pruned.Waiting(s))
	case question == route.Why:
		object, err := key.ParsePath(root.Name + "/" + r.URL.Query().Get("object"))
		if err != nil {
			respond.Error(w, r, respond.BadRequest("%v", err))
			return
		}
		respond.JSON(w, q.why(object, key.Location(r.URL.Query().Get("location"))))
	default:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	}
}

// writeStatus writes a SpaceStatus of what is asked for of a space. It goes out an object at a time, since all places of a space
// may be more than the hub has memory for.
func (q *Server) writeStatus(ctx context.Context, w http.ResponseWriter, s key.Space, f statusFilter) {
	snapshot := q.config.Table.Snapshot()
	totals := slices.DeleteFunc(q.placementTotals(snapshot, s), func(p PlacementTotal) bool { return f.placement != "" && p.Name != f.placement })
	head, err := json.Marshal(SpaceStatus{
		Space: s, Placements: totals, Waiting: q.config.Pruned.Waiting(s), LeftCounts: q.leftOf(snapshot, s), Objects: []ObjectStatus{},
	})
	if err != nil {
		q.config.Logger.Error("encode the status of a space", "space", s, "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Objects come last: they are put between the two brackets that end the rest.
	const end = "]}"
	out := bufio.NewWriterSize(w, statusPiece)
	_, _ = out.Write(bytes.TrimSuffix(head, []byte(end))) // Flush says what went wrong
	separator := ""
	for status := range q.objectStatuses(snapshot, s, f) {
		one, err := json.Marshal(status)
		if err != nil || ctx.Err() != nil {
			panic(http.ErrAbortHandler) // half an answer must not look like a whole one
		}
		_, _ = out.WriteString(separator)
		_, _ = out.Write(one)
		separator = ","
	}
	_, _ = out.WriteString(end + "\n")
	_ = out.Flush() // a client that is gone needs no answer
}

// objectStatuses are those of a space that are asked for: of what is placed in order,
// then of what is not and is at locations all the same.
func (q *Server) objectStatuses(state table.Reader, s key.Space, f statusFilter) iter.Seq[ObjectStatus] {
	away := awayIn(state)
	paths, left := q.leftStatuses(state, s, f, away)
	return func(yield func(ObjectStatus) bool) {
		more := true
		state.Ascend(key.SpacePrefix(s)+f.object, func(row *table.Row) bool {
			o, err := key.ParseObject(row.Key)
			if err != nil || row.In == nil || !f.wants(o.Identity) {
				return true
			}
			m, ok := row.In.(*placement.Membership)
			if !ok {
				return true
			}
			status := ObjectStatus{Object: o.Identity.String(), Generation: row.Meta.Generation}
			for _, p := range m.Places() {
				if !f.placed(m, p.Location) {
					continue
				}
				if ps := q.placeStatus(state, o, row, p, away(p.Location)); f.shows(&ps) {
					status.Places = append(status.Places, ps)
				}
			}
			status.Places = append(status.Places, left[o.Path()]...)
			delete(left, o.Path())
			if len(status.Places) > 0 || f.all() {
				more = yield(status)
			}
			return more
		})
		for _, path := range paths {
			o, err := key.ParsePath(path)
			if places := left[path]; more && err == nil && places != nil {
				more = yield(ObjectStatus{Object: o.Identity.String(), Places: places})
			}
		}
	}
}

// placementTotals adds up the placements of a space as far as the hub has
// counted, which is at most a settling time behind.
func (q *Server) placementTotals(state table.Reader, s key.Space) []PlacementTotal {
	all := []PlacementTotal{}
	state.Ascend(key.ResourcePrefix(s, key.Placements), func(row *table.Row) bool {
		o, err := key.ParseObject(row.Key)
		if err != nil {
			return true
		}
		resolved, ok := placement.StatusOf(state, s, o.Name)
		if !ok {
			return true
		}
		counts := q.config.Tally.Placement(tally.Placement{Space: s, Name: o.Name})
		var parts []string
		for _, p := range q.config.Releases.Parts(release.Placement{Space: s, Name: o.Name}) {
			parts = append(parts, p.String())
		}
		all = append(all, PlacementTotal{
			PartOf: parts, StatusLeftOut: q.config.LeftOut.Of(tally.Placement{Space: s, Name: o.Name}).String(),
			Name: o.Name, Suspended: gjson.GetBytes(row.Value, "spec.suspend").Bool(), Problems: resolved.Problems,
			Locations: int64(len(resolved.Locations)), Objects: counts.Objects, Counts: counts.Counts, Errors: counts.Errors,
		})
		return true
	})
	return all
}

// awayIn says of each location whether it is away, and looks at each once.
func awayIn(state table.Reader) func(key.Location) bool {
	known := map[key.Location]bool{}
	return func(l key.Location) bool {
		away, ok := known[l]
		if !ok {
			away = judge.RowAway(state.Get(l.Key()))
			known[l] = away
		}
		return away
	}
}

// placeStatus is what is known of one object at one of its locations.
func (q *Server) placeStatus(state table.Reader, o key.Object, row *table.Row, p placement.Place, away bool) PlaceStatus {
	ps := placeStatusOf(p.Location, judge.Assigned(q.config.Digest, row, p, reportOf(state, o, p.Location), away))
	if u, ok := q.config.LeftOut.Get(row.Key); ok && u.Location == p.Location {
		ps.StatusLeftOut = u.Why
	}
	return ps
}

func placeStatusOf(location key.Location, v judge.Verdict) PlaceStatus {
	return PlaceStatus{
		Location: location, State: string(v.State), Reason: v.Reason, Message: v.Message, Since: v.Since,
		Stale: v.Stale, Unassigned: v.Unassigned,
	}
}

// placeOf is how a row's object is placed at a location; false: it is not.
func placeOf(row *table.Row, l key.Location) (*placement.Membership, placement.Place, bool) {
	if row == nil {
		return nil, placement.Place{}, false
	}
	m, ok := row.In.(*placement.Membership)
	if !ok || m == nil {
		return nil, placement.Place{}, false
	}
	p, ok := m.Place(l)
	return m, p, ok
}

// reportOf is a location's report as the log has it; nil: there is none.
func reportOf(state table.Reader, o key.Object, l key.Location) []byte {
	row := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key())
	if row == nil {
		return nil
	}
	return row.Value
}

func (q *Server) why(o key.Object, l key.Location) Why {
	snapshot := q.config.Table.Snapshot()
	answer := Why{Decision: placement.Explain(snapshot, o, l)}
	row := snapshot.Get(o.Key())
	m, p, ok := placeOf(row, l)
	if m == nil || !ok {
		if ps, left := leftStatus(snapshot, o, l, awayIn(snapshot)(l)); left {
			answer.Place = &ps
		}
		return answer
	}
	ps := q.placeStatus(snapshot, o, row, p, awayIn(snapshot)(l))
	answer.Place = &ps
	if view.Holds(row, l) {
		if digest, err := q.config.Digest(row.Entry, p.Class); err == nil {
			answer.Digest = digest.String()
		}
	}
	if report := reportOf(snapshot, o, l); report != nil {
		answer.Applied = judge.Reported(report).String()
	}
	return answer
}
