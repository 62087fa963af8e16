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
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/engine/helm"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

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

// Server answers queries. It determines the rights of the user and passes the query on to the part that
// answers it. It is safe for concurrent use.
type Server struct {
	config     Config
	status     *statusServer
	explainer  *explainer
	live       *liveReader
	renderings *renderings
}

// New returns a Server.
func New(config Config) *Server {
	objects := &objectStatuses{digest: config.Digest, progress: config.Progress, leftOut: config.LeftOut}
	return &Server{
		config: config,
		status: &statusServer{
			table: config.Table, objects: objects, pruned: config.Pruned, conditions: config.StreamConditions, logger: config.Logger,
			totals: &placementTotals{digest: config.Digest, progress: config.Progress, releases: config.Releases, leftOut: config.LeftOut},
		},
		explainer:  &explainer{table: config.Table, digest: config.Digest, renderer: config.Renderer, pruned: config.Pruned, statuses: objects},
		live:       &liveReader{table: config.Table, digest: config.Digest, inspect: config.Inspect},
		renderings: &renderings{table: config.Table, renderer: config.Renderer, rules: config.Rules},
	}
}

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
		q.renderings.serve(w, r, rights)
	case r.Method != http.MethodGet:
		respond.Error(w, r, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "questions"}, strings.ToLower(r.Method)))
	case question == route.Diff:
		q.live.serve(w, r, rights, q.existence(rights))
	case question == route.Status:
		q.serveStatus(w, r, rights)
	case question == route.Waiting:
		respond.JSON(w, waiting(q.config.Pruned, rights))
	case question == route.Why:
		q.serveWhy(w, r, rights)
	default:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	}
}

// serveStatus responds with the status of a space, or with its changes.
func (q *Server) serveStatus(w http.ResponseWriter, r *http.Request, rights *rights) {
	f := statusFilterOf(r.URL.Query())
	if err := q.admits(r.Context(), rights, &f); err != nil {
		respond.Error(w, r, err)
		return
	}
	if Follows(r) {
		q.status.follow(w, r, rights, f)
		return
	}
	q.status.write(w, r, rights, f)
}

// serveWhy responds with a Why.
func (q *Server) serveWhy(w http.ResponseWriter, r *http.Request, rights *rights) {
	object, err := key.ParseIn(rights.space, r.URL.Query().Get("object"))
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
	answer := q.explainer.why(r.Context(), rights, object, l)
	if err := cmp.Or(known.object(r.Context(), object), known.location(r.Context(), l, object)); apierrors.IsNotFound(err) && !answer.Decision.Placed {
		answer.NotFound = err.Error()
	} else if err != nil && !apierrors.IsNotFound(err) {
		respond.Error(w, r, err)
		return
	}
	respond.JSON(w, answer)
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

// rightsOf returns the rights of the user of a request.
func (q *Server) rightsOf(ctx context.Context, s key.Space) *rights {
	return &rights{
		may: func(verb string, o key.Object) bool { return q.config.May == nil || q.config.May(ctx, verb, o) },
		mayLook: func(l key.Location, sub string) bool {
			o := key.Object{Space: s, Identity: key.Identity{Resource: key.Locations, Name: string(l)}}
			return q.config.MaySub == nil || q.config.MaySub(ctx, "get", o, sub)
		},
		space: s,
		known: map[listed]bool{},
	}
}

// existence returns the checks of what the user of a request names.
func (q *Server) existence(rights *rights) existence {
	return existence{q.config.Table.Snapshot(), rights, q.config.Progress.Unassigned}
}
