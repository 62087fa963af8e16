// Package queries answers questions about a space that no object of it answers: what is
// where, why an object is or is not at a location, what a location gets of it and has of it,
// and which removals wait.
//
// It only reads, and must never decide by itself how far an object is: judge does.
package queries

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/helm"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/kubeapi/read"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// SpaceStatus answers GET /ask/v1/spaces/NAME/status: what of a space is where. With
// limit=N it has about N objects and says where the next ones begin (continue=TOKEN); of
// these later answers only the objects count.
type SpaceStatus struct {
	Space      key.Space        `json:"space"`
	Placements []PlacementTotal `json:"placements"`
	// Waiting are the removals that wait for a confirmation, by Placement.
	Waiting []prune.Waiting `json:"waiting,omitempty"`
	// LeftCounts are of the space's objects at locations that they are not assigned to.
	v1alpha1.LeftCounts
	// Continue is where the objects after these begin; empty if there are none.
	Continue string         `json:"continue,omitempty"`
	Objects  []ObjectStatus `json:"objects"`
}

// PlacementTotal sums up one Placement.
type PlacementTotal struct {
	// Name is the Placement, as it is named in the space.
	Name      key.PlacementRef `json:"name"`
	Suspended bool             `json:"suspended,omitempty"`
	// Problems say why parts of its spec can't be used.
	Problems []string `json:"problems,omitempty"`
	// Unknown are the locations that it names and that do not exist.
	Unknown []string `json:"unknown,omitempty"`
	// PartOf says which Helm releases it matches only in part.
	PartOf []string `json:"partOf,omitempty"`
	// StatusLeftOut says which statuses that it asks for are not returned.
	StatusLeftOut string `json:"statusLeftOut,omitempty"`
	// Spaces is how many spaces it reaches, if it is one of root that reaches others. What is
	// counted of it in one of them is of that space alone.
	Spaces    int64 `json:"spaces,omitempty"`
	Locations int64 `json:"locations"`
	Objects   int64 `json:"objects"`
	v1alpha1.Counts
	Errors []v1alpha1.PlacementError `json:"errors,omitempty"`
}

// ObjectStatus is one object, and the locations where it is or is assigned to.
type ObjectStatus struct {
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object     string        `json:"object"`
	Generation int64         `json:"generation,omitempty"`
	Places     []PlaceStatus `json:"places"`
}

// PlaceStatus is one object at one location.
type PlaceStatus struct {
	Location key.Location `json:"location"`
	// State is that of the verdict, see package objectstate.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Since   string `json:"since,omitempty"`
	// Health is how the object does at the location: Healthy, Progressing, Degraded or
	// Unknown; empty if that is not known. HealthNote says why it is not Healthy.
	Health     wire.Health `json:"health,omitempty"`
	HealthNote string      `json:"healthNote,omitempty"`
	// Stale says that the location is away, see objectstate.Away.
	Stale bool `json:"stale,omitempty"`
	// Unassigned says that the object is not assigned to the location: the location
	// removes it, or reports why it stays.
	Unassigned bool `json:"unassigned,omitempty"`
	// Cause says why it is not assigned, one of the Cause constants.
	Cause string `json:"cause,omitempty"`
	// LetGoBy is the Placement by which it was assigned until then, the first of several; empty
	// if that is not known, or the reader may not list Placements.
	LetGoBy key.PlacementRef `json:"letGoBy,omitempty"`
	// StatusLeftOut says why the status there is not returned, though it is asked for.
	StatusLeftOut string `json:"statusLeftOut,omitempty"`
}

// Why an object is not assigned to a location that has it, or may have it.
const (
	// CauseDeleted: the object was deleted.
	CauseDeleted = "Deleted"
	// CauseUnassigned: the object is there, and no policy places it at the location now.
	CauseUnassigned = "Unassigned"
)

// Why answers GET /ask/v1/spaces/NAME/why?object=PATH&location=L: why an object is or is
// not assigned to a location, and how far it is there.
type Why struct {
	Decision placement.Explanation `json:"decision"`
	// Rules are what each rule of a Customizer does to the object for the location, in
	// order, up to one that fails.
	Rules []rules.Effect `json:"rules,omitempty"`
	// Place is the object at the location; nil if it is neither assigned nor reported.
	Place *PlaceStatus `json:"place,omitempty"`
	// Waiting are the removals of the space that wait for a confirmation, if that of the
	// object is among them.
	Waiting []prune.Waiting `json:"waiting,omitempty"`
	// Digest is that of the desired object, Applied that of the one last applied.
	Digest  string `json:"digest,omitempty"`
	Applied string `json:"applied,omitempty"`
}

// Config is what a Server needs.
type Config struct {
	// Table has the objects and reports; Digest gives the digests of rendered objects.
	Table  *table.Table
	Digest objectstate.Digest
	// Renderer renders objects by the rules that Rules gives.
	Renderer *render.Renderer
	Rules    placement.RulesOf
	// Counts of states, removals that wait, Helm releases matched in part, and statuses
	// that do not fit.
	Tally    *progress.Tracker
	Pruned   *prune.Index
	Releases *helm.Index
	LeftOut  *unreturned.Index
	// Committed waits until the table shows what was acknowledged to anybody before.
	Committed func(context.Context) error
	// May says whether who sends the request of a context may do something with an object:
	// with those of its kind and namespace, if it has no name. nil: they may.
	// MaySub says the same of a subresource.
	May    func(ctx context.Context, verb string, o key.Object) bool
	MaySub func(ctx context.Context, verb string, o key.Object, sub string) bool
	// Premises are those of a request's access.
	Premises func(ctx context.Context) []table.Premise
	// Look asks a location's agent what is there in the place of an object.
	Look   func(ctx context.Context, l key.Location, o key.Object, all bool) (wire.Looked, error)
	Logger *slog.Logger
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
	if !write.Exists(q.config.Table, s) {
		respond.Error(w, r, apierrors.NewNotFound(schema.GroupResource{Group: key.Spaces.Group, Resource: key.Spaces.Resource}, root.Name))
		return
	}
	rights := q.rightsOf(r.Context(), s)
	switch {
	case question == route.Render && (r.Method == http.MethodGet || r.Method == http.MethodPost):
		q.serveRender(w, r, rights)
	case r.Method != http.MethodGet:
		respond.Error(w, r, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "questions"}, strings.ToLower(r.Method)))
	case question == route.Diff:
		q.serveDiff(w, r, rights)
	case question == route.Status:
		f := statusFilterOf(r.URL.Query())
		if err := q.admits(rights, &f); err != nil {
			respond.Error(w, r, err)
			return
		}
		if Follows(r) {
			q.follow(w, r, rights, f)
			return
		}
		q.writeStatus(w, r, rights, f)
	case question == route.Waiting:
		respond.JSON(w, q.waiting(rights))
	case question == route.Why:
		object, err := key.ParseIn(s, r.URL.Query().Get("object"))
		if err == nil {
			err = rights.gets(object)
		} else {
			err = respond.BadRequest("%v", err)
		}
		if err != nil {
			respond.Error(w, r, err)
			return
		}
		respond.JSON(w, q.why(r.Context(), rights, object, key.Location(r.URL.Query().Get("location"))))
	default:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	}
}

// admits fails if the reader may not read what a filter names, or if that is not there,
// and narrows the filter to what the reader may list.
func (q *Server) admits(rights *rights, f *statusFilter) error {
	f.lists = rights.lists
	if f.placement != "" {
		if err := rights.names(f.placement); err != nil {
			return err
		}
	}
	if f.object == "" {
		return nil
	}
	o, err := key.ParseIn(rights.space, f.object)
	if err != nil {
		return respond.BadRequest("%v", err)
	}
	if err := rights.gets(o); err != nil {
		return err
	}
	f.lists = func(id key.Identity) bool { return id == o.Identity || rights.lists(id) }
	return q.known(q.config.Table.Snapshot(), o)
}

// waiting are the removals that wait, for who may list Placements.
func (q *Server) waiting(rights *rights) []prune.Waiting {
	if !rights.lists(key.Identity{Resource: key.Placements}) {
		return []prune.Waiting{}
	}
	return q.config.Pruned.Waiting(rights.space)
}

// placementTotals sums up the Placements of a space. Counts may be behind by at most a
// settling time.
func (q *Server) placementTotals(state table.Reader, rights *rights, s key.Space) []PlacementTotal {
	all := []PlacementTotal{}
	unknown := func(object string) bool { // which may be a whole kind
		id, err := key.ParseIdentity(object)
		return err == nil && !rights.lists(id)
	}
	state.Ascend(key.ResourcePrefix(s, key.Placements), func(row *table.Row) bool {
		o, err := key.ParseObject(row.Key)
		if err != nil {
			return true
		}
		p := key.Placement{Space: s, Name: o.Name}
		resolved, ok := placement.StatusOf(state, p)
		if !ok {
			return true
		}
		counts := q.config.Tally.Placement(p)
		var parts []string
		for _, part := range q.config.Releases.Parts(p, s) {
			part.Missing = slices.DeleteFunc(part.Missing, unknown)
			parts = append(parts, part.String())
		}
		all = append(all, PlacementTotal{
			Unknown: resolved.Unknown, PartOf: parts, StatusLeftOut: q.config.LeftOut.Of(p, s).Without(unknown).String(),
			Name: p.In(s), Suspended: gjson.GetBytes(row.Value, "spec.suspend").Bool(), Problems: resolved.Problems,
			Spaces: int64(resolved.Spaces), Locations: int64(len(resolved.Locations)), Objects: counts.Objects, Counts: counts.Counts,
			Errors: slices.DeleteFunc(counts.Errors, func(e v1alpha1.PlacementError) bool { return e.Space == "" && unknown(e.Object) }),
		})
		return true
	})
	return all
}

// awayIn says of a location whether it is away, and remembers it.
func awayIn(state table.Reader) func(key.Location) bool {
	known := map[key.Location]bool{}
	return func(l key.Location) bool {
		away, ok := known[l]
		if !ok {
			away = objectstate.RowAway(state.Get(l.Key()))
			known[l] = away
		}
		return away
	}
}

// placeStatus is what is known of one object at one of its locations.
func (q *Server) placeStatus(state table.Reader, o key.Object, row *table.Row, p placement.Place, away bool) PlaceStatus {
	ps := placeStatusOf(p.Location, objectstate.Assigned(q.config.Digest, row, p, reportOf(state, o, p.Location), away))
	if u, ok := q.config.LeftOut.Get(row.Key); ok && (u.Location == p.Location || u.Location == "" && p.Policy.ReturnStatus) {
		ps.StatusLeftOut = u.Why
	}
	return ps
}

func placeStatusOf(location key.Location, v objectstate.Status) PlaceStatus {
	return PlaceStatus{
		Location: location, State: string(v.State), Reason: v.Reason, Message: v.Message, Since: v.Since,
		Health: v.Health, HealthNote: v.HealthNote, Stale: v.Stale, Unassigned: v.Unassigned,
	}
}

// placeOf is how a row's object is placed at a location; false if it is not.
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

// reportOf is a location's report as the log has it; nil if there is none.
func reportOf(state table.Reader, o key.Object, l key.Location) []byte {
	row := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key())
	if row == nil {
		return nil
	}
	return row.Report()
}

// effects are what the rules of a class do to a row's object. What can't be rendered for
// another reason is told as the object's state.
func (q *Server) effects(ctx context.Context, row *table.Row, class *placement.Class) []rules.Effect {
	effects, err := q.config.Renderer.Effects(ctx, row.Entry, class)
	if err != nil {
		return nil
	}
	return effects
}

func (q *Server) why(ctx context.Context, rights *rights, o key.Object, l key.Location) Why {
	snapshot := q.config.Table.Snapshot()
	answer := Why{Decision: placement.Explain(snapshot, o, l)}
	rights.narrow(&answer.Decision)
	row := snapshot.Get(o.Key())
	m, p, ok := placeOf(row, l)
	if m == nil || !ok || p.Leaves {
		if ps, left := leftStatus(snapshot, o, l, awayIn(snapshot)(l)); left {
			if answer.Place = &ps; !rights.lists(key.Identity{Resource: key.Placements}) {
				ps.LetGoBy = ""
			}
			if ps.Reason == v1alpha1.ReasonPruneGuard {
				answer.Waiting = q.waiting(rights)
			}
		} else if ok {
			answer.Place = new(q.placeStatus(snapshot, o, row, p, awayIn(snapshot)(l)))
		} else if m != nil && m.RefusedBy(l) {
			answer.Place = new(placeStatusOf(l, objectstate.Refused(m.Refusal(l))))
		}
		return answer
	}
	ps := q.placeStatus(snapshot, o, row, p, awayIn(snapshot)(l))
	answer.Place = &ps
	if ps.Reason == v1alpha1.ReasonPruneGuard { // its deletion waits, to make it anew
		answer.Waiting = q.waiting(rights)
	}
	if rights.lists(key.Identity{Resource: key.Customizers}) {
		answer.Rules = q.effects(ctx, row, p.Class)
	}
	if read.Holds(row, l) {
		if digest, err := q.config.Digest(row.Entry, p.Class); err == nil {
			answer.Digest = digest.String()
		}
	}
	if report := reportOf(snapshot, o, l); report != nil {
		answer.Applied = objectstate.Reported(report).String()
	}
	return answer
}
