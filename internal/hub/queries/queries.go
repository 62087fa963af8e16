// Package queries answers queries about a space that no object of it answers: the status of all
// objects, why an object is or is not at a location, its rendering and live state there, and
// pending removals.
//
// It only reads. It must not compute the state of an object itself; package objectstate does.
package queries

import (
	"cmp"
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

// SpaceStatus is the response to GET /ask/v1/spaces/NAME/status: the status of the objects of a
// space at locations. With limit=N it has about N objects and the start of the next page
// (continue=TOKEN). Of later pages, only the objects are used.
type SpaceStatus struct {
	Space      key.Space        `json:"space"`
	Placements []PlacementTotal `json:"placements"`
	// Waiting are the removals that wait for a confirmation, by Placement.
	Waiting []prune.Waiting `json:"waiting,omitempty"`
	// LeftCounts count objects of the space at locations that they are not assigned to.
	v1alpha1.LeftCounts
	// Continue is the token of the next page; empty on the last page.
	Continue string         `json:"continue,omitempty"`
	Objects  []ObjectStatus `json:"objects"`
}

// PlacementTotal summarizes one Placement.
type PlacementTotal struct {
	// Name is the name of the Placement in the space.
	Name      key.PlacementRef `json:"name"`
	Suspended bool             `json:"suspended,omitempty"`
	// Problems are the reasons why parts of its spec are invalid.
	Problems []string `json:"problems,omitempty"`
	// Unknown are locations in its spec that do not exist.
	Unknown []string `json:"unknown,omitempty"`
	// PartOf lists the Helm releases that match only partly.
	PartOf []string `json:"partOf,omitempty"`
	// StatusLeftOut describes requested statuses that are not returned.
	StatusLeftOut string `json:"statusLeftOut,omitempty"`
	// Spaces is the number of spaces that a Placement of root with spec.spaces selects. In the
	// status of one of these spaces, the counts include only that space.
	Spaces    int64 `json:"spaces,omitempty"`
	Locations int64 `json:"locations"`
	Objects   int64 `json:"objects"`
	v1alpha1.Counts
	Errors []v1alpha1.PlacementError `json:"errors,omitempty"`
}

// ObjectStatus is an object with the locations where it exists or is assigned to.
type ObjectStatus struct {
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object     string        `json:"object"`
	Generation int64         `json:"generation,omitempty"`
	Places     []PlaceStatus `json:"places"`
}

// PlaceStatus is one object at one location.
type PlaceStatus struct {
	Location key.Location `json:"location"`
	// State is the state of package objectstate.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Since   string `json:"since,omitempty"`
	// Health is the health of the object at the location: Healthy, Progressing, Degraded or
	// Unknown; empty if it is not known. HealthNote explains why it is not Healthy.
	Health     wire.Health `json:"health,omitempty"`
	HealthNote string      `json:"healthNote,omitempty"`
	// Stale reports whether the state may be old, see objectstate.IsStale.
	Stale bool `json:"stale,omitempty"`
	// Unassigned reports that the object is not assigned to the location: the location removes it,
	// or reports why it stays.
	Unassigned bool `json:"unassigned,omitempty"`
	// Cause is the reason why it is not assigned, one of the Cause constants.
	Cause string `json:"cause,omitempty"`
	// LetGoBy is the Placement that had assigned the object, the first of several. It is empty if
	// it is unknown, or the reader may not list Placements.
	LetGoBy key.PlacementRef `json:"letGoBy,omitempty"`
	// StatusLeftOut is the reason why the requested status there is not returned.
	StatusLeftOut string `json:"statusLeftOut,omitempty"`
}

// Reasons why an object is not assigned to a location that has it, or may have it.
const (
	// CauseDeleted: the object was deleted.
	CauseDeleted = "Deleted"
	// CauseUnassigned: the object exists, and no policy assigns it to the location now.
	CauseUnassigned = "Unassigned"
)

// Why is the response to GET /ask/v1/spaces/NAME/why?object=PATH&location=L: why an object is or is
// not assigned to a location, and its state there.
type Why struct {
	Decision placement.Explanation `json:"decision"`
	// NotFound is the error if the object or the location does not exist, with a similar name if there
	// is one. The decision may still explain an object that others refer to.
	NotFound string `json:"notFound,omitempty"`
	// Rules are the effects of each rule of a Customizer on the object for the location, in order,
	// up to a rule that fails.
	Rules []rules.Effect `json:"rules,omitempty"`
	// Place is the object at the location; nil if it is neither assigned nor reported.
	Place *PlaceStatus `json:"place,omitempty"`
	// Waiting are the pending removals of the space, if the removal of the object is among them.
	Waiting []prune.Waiting `json:"waiting,omitempty"`
	// Digest is the digest of the desired object, and Applied that of the last applied one.
	Digest  string `json:"digest,omitempty"`
	Applied string `json:"applied,omitempty"`
}

// Config configures a Server.
type Config struct {
	// Table contains the objects and reports; Digest returns the digests of rendered objects.
	Table  *table.Table
	Digest objectstate.Digest
	// Renderer renders objects by the rules in Rules.
	Renderer *render.Renderer
	Rules    placement.RulesOf
	// Counts of states, pending removals, Helm releases that match partly, and statuses that are
	// too large.
	Progress *progress.Tracker
	Pruned   *prune.Index
	Releases *helm.Index
	LeftOut  *unreturned.Index
	// Committed waits until the table contains all earlier writes.
	Committed func(context.Context) error
	// May reports whether the user of a request may use a verb on an object, or on all objects of
	// its kind and namespace if it has no name. If it is nil, all users may. MaySub reports the
	// same for a subresource.
	May    func(ctx context.Context, verb string, o key.Object) bool
	MaySub func(ctx context.Context, verb string, o key.Object, sub string) bool
	// StreamConditions returns the stream conditions of a request's access.
	StreamConditions func(ctx context.Context) []table.Condition
	// Inspect requests the live object from a location's agent.
	Inspect func(ctx context.Context, l key.Location, o key.Object, all bool) (wire.InspectResponse, error)
	Logger  *slog.Logger
}

// Server answers queries. It is safe for concurrent use.
type Server struct{ config Config }

// New returns a Server.
func New(config Config) *Server { return &Server{config} }

// ServeHTTP answers a query about the space of the request's root.
func (q *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root, question := route.Parse(r.URL.Path)
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
		if err := q.admits(r.Context(), rights, &f); err != nil {
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
		l, known := key.Location(r.URL.Query().Get("location")), q.existence(rights)
		answer := q.why(r.Context(), rights, object, l)
		if err := cmp.Or(known.object(r.Context(), object), known.location(r.Context(), l, object)); apierrors.IsNotFound(err) && !answer.Decision.Placed {
			answer.NotFound = err.Error()
		} else if err != nil && !apierrors.IsNotFound(err) {
			respond.Error(w, r, err)
			return
		}
		respond.JSON(w, answer)
	default:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	}
}

// admits fails if the reader may not read the objects in a filter, or if they do not exist. It
// limits the filter to objects that the reader may list.
func (q *Server) admits(ctx context.Context, rights *rights, f *statusFilter) error {
	f.lists = rights.lists
	if err := f.checkStates(); err != nil {
		return err
	}
	if f.placement != "" {
		if err := rights.names(f.placement); err != nil {
			return err
		}
		if err := q.existence(rights).placement(ctx, f.placement); err != nil {
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
	return q.existence(rights).object(ctx, o)
}

// existence returns the checks of what the user of a request names.
func (q *Server) existence(rights *rights) existence {
	return existence{q.config.Table.Snapshot(), rights, q.config.Progress.Unassigned}
}

// waiting returns the pending removals, if the reader may list Placements.
func (q *Server) waiting(rights *rights) []prune.Waiting {
	if !rights.lists(key.Identity{Resource: key.Placements}) {
		return []prune.Waiting{}
	}
	return q.config.Pruned.Waiting(rights.space)
}

// placementTotals summarizes the Placements of a space, until the context ends. Counts may be outdated by at most
// the delay of the progress tracker.
func (q *Server) placementTotals(ctx context.Context, state table.Reader, rights *rights, s key.Space) []PlacementTotal {
	all := []PlacementTotal{}
	unknown := func(object string) bool { // the name may stand for a whole kind
		id, err := key.ParseIdentity(object)
		return err == nil && !rights.lists(id)
	}
	state.Ascend(key.ResourcePrefix(s, key.Placements), func(row *table.Row) bool {
		if ctx.Err() != nil {
			return false
		}
		o, err := key.ParseObject(row.Key)
		if err != nil {
			return true
		}
		p := key.Placement{Space: s, Name: o.Name}
		resolved, ok := placement.StatusOf(state, p)
		if !ok {
			return true
		}
		counts := q.config.Progress.Placement(ctx, p)
		var partly []string
		for _, partial := range q.config.Releases.PartialReleases(p, s) {
			partial.Missing = slices.DeleteFunc(partial.Missing, unknown)
			partly = append(partly, partial.String())
		}
		all = append(all, PlacementTotal{
			Unknown: resolved.Unknown, PartOf: partly, StatusLeftOut: q.config.LeftOut.Missed(p, s).Without(unknown).String(),
			Name: p.In(s), Suspended: gjson.GetBytes(row.Value, "spec.suspend").Bool(), Problems: resolved.Problems,
			Spaces: int64(resolved.Spaces), Locations: int64(len(resolved.Locations)), Objects: counts.Objects, Counts: counts.Counts,
			Errors: slices.DeleteFunc(counts.Errors, func(e v1alpha1.PlacementError) bool { return e.Space == "" && unknown(e.Object) }),
		})
		return true
	})
	return all
}

// staleIn returns a function that reports whether the reports of a location are stale, with cached results.
func staleIn(state table.Reader) func(key.Location) bool {
	known := map[key.Location]bool{}
	return func(l key.Location) bool {
		stale, ok := known[l]
		if !ok {
			stale = objectstate.IsRowStale(state.Get(l.Key()))
			known[l] = stale
		}
		return stale
	}
}

// placeStatus returns the status of an object at one of its locations.
func (q *Server) placeStatus(state table.Reader, o key.Object, row *table.Row, p placement.Place, stale bool) PlaceStatus {
	ps := placeStatusOf(p.Location, objectstate.Assigned(q.config.Digest, row, p, reportOf(state, o, p.Location), stale))
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

// placeOf returns how a row's object is placed at a location; false if it is not.
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

// effects returns the effects of a class's rules on a row's object. The object's state has all
// other reasons for a failed rendering.
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
		if ps, left := leftStatus(snapshot, o, l, staleIn(snapshot)(l)); left {
			if answer.Place = &ps; !rights.lists(key.Identity{Resource: key.Placements}) {
				ps.LetGoBy = ""
			}
			if ps.Reason == v1alpha1.ReasonPruneGuard {
				answer.Waiting = q.waiting(rights)
			}
		} else if ok {
			answer.Place = new(q.placeStatus(snapshot, o, row, p, staleIn(snapshot)(l)))
		} else if m != nil && m.RefusedBy(l) {
			answer.Place = new(placeStatusOf(l, objectstate.Refused(m.Refusal(l))))
		}
		return answer
	}
	ps := q.placeStatus(snapshot, o, row, p, staleIn(snapshot)(l))
	answer.Place = &ps
	if ps.Reason == v1alpha1.ReasonPruneGuard { // the object is to be recreated, and its deletion is pending
		answer.Waiting = q.waiting(rights)
	}
	if rights.lists(key.Identity{Resource: key.Customizers}) {
		answer.Rules = q.effects(ctx, row, p.Class)
	}
	if read.IsDesired(row, l) {
		if digest, err := q.config.Digest(row.Entry, p.Class); err == nil {
			answer.Digest = digest.String()
		}
	}
	if report := reportOf(snapshot, o, l); report != nil {
		answer.Applied = objectstate.Reported(report).String()
	}
	return answer
}
