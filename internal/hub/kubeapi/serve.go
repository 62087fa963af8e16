// Package kubeapi serves the Kubernetes APIs of a hub: of each space, of all of them
// together, of each location, of what these report, and of what is exported. It finds the kind that a request is about, and who serves
// its verb: reads come from the table, writes go through the space's registries.
//
// It must never decide who may send a request, nor what an object means.
package kubeapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"orrery.dev/orrery/internal/hub/engine/exports"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/discovery"
	"orrery.dev/orrery/internal/hub/kinds/schemacost"
	"orrery.dev/orrery/internal/hub/kubeapi/read"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// Config is what a Server needs.
type Config struct {
	// Catalogs have the kinds, and Documents describe them.
	Catalogs  Catalogs
	Documents *discovery.Server
	// Views read, and Spaces write.
	Views  *read.Server
	Spaces *write.Server
	// Reviews answers what clients ask about their access.
	Reviews func(*kinds.Catalog, *kinds.Kind) http.HandlerFunc
	// Tokens serves a verb of the tokens of a location.
	Tokens func(l key.Location, verb string) (http.HandlerFunc, error)
	// UID is that of a location; it fails if there is none.
	UID func(key.Location) (string, error)
	// Exports says what shelves have.
	Exports *exports.Engine
	// Reads and Writes share turns between spaces and locations.
	Reads, Writes respond.Turns
	// Committed waits until the table shows what was acknowledged to anybody before.
	Committed func(context.Context) error
	// RequestInfo is for messages about requests that panic.
	RequestInfo request.RequestInfoResolver
	// Logger gets what is wrong with CRDs.
	Logger *slog.Logger
}

// Server serves Kubernetes APIs. It is safe for concurrent use.
type Server struct {
	config   Config
	catalogs Catalogs
}

// New makes a Server.
func New(config Config) *Server { return &Server{config, config.Catalogs} }

// ServeSpace serves the API of a space, or the one over all of them. The context of the
// request must have its RequestInfo.
func (v *Server) ServeSpace(w http.ResponseWriter, r *http.Request, root route.Root) {
	v.filtered(w, r, root, v.serveSpace)
}

// ServeView serves the API of a location, as ServeSpace does.
func (v *Server) ServeView(w http.ResponseWriter, r *http.Request, root route.Root) {
	v.filtered(w, r, root, v.serveView)
}

// serveSpace serves one space, or the wildcard over all of them.
func (v *Server) serveSpace(w http.ResponseWriter, r *http.Request, root route.Root) {
	s := key.Space(root.Name)
	if err := v.config.Committed(r.Context()); err != nil {
		respond.Error(w, r, err)
		return
	}
	if s == key.AllSpaces {
		v.serveAPI(w, r, root, read.AllSpaces(), v.catalogs.Kinds.Builtin(key.Root))
		return
	}
	if !write.Exists(v.catalogs.Table, s) {
		respond.Error(w, r, apierrors.NewNotFound(schema.GroupResource{Group: key.Spaces.Group, Resource: key.Spaces.Resource}, root.Name))
		return
	}
	catalog, err := v.catalogs.Kinds.Catalog(s, v.catalogs.Table.Snapshot())
	if err != nil { // a CRD that can't be compiled; the rest is served
		v.config.Logger.Warn("catalog of a space", "space", s, "error", err)
	}
	v.serveAPI(w, r.WithContext(write.WithSpace(r.Context(), s)), root, read.Space(s), catalog)
}

// serveView serves the view of one location.
func (v *Server) serveView(w http.ResponseWriter, r *http.Request, root route.Root) {
	l := key.Location(root.Name)
	if err := v.config.Committed(r.Context()); err != nil {
		respond.Error(w, r, err)
		return
	}
	if _, err := v.config.UID(l); err != nil {
		respond.Error(w, r, err)
		return
	}
	row, _ := v.catalogs.Table.Get(l.Key())
	v.serveAPI(w, r, root, read.Location(l, placement.PlacingOf(row)), v.catalogs.ofLocation(l))
}

// maxQuery is how many bytes of a query are taken: each term of a selector is compared with
// each object of a list, and of a watch.
const maxQuery = 16 << 10

// serveAPI serves one API root: its documents, reads through a lens, and, if
// the lens is of a single space, writes.
func (v *Server) serveAPI(w http.ResponseWriter, r *http.Request, root route.Root, lens read.Lens, catalog *kinds.Catalog) {
	v.serveKinds(w, r, root, catalog, func(ctx context.Context, kind *kinds.Kind, info *request.RequestInfo) (http.HandlerFunc, error) {
		return v.handlerFor(ctx, lens, catalog, kind, info)
	})
}

// finder chooses who serves a request about a kind.
type finder func(context.Context, *kinds.Kind, *request.RequestInfo) (http.HandlerFunc, error)

// serveKinds serves the documents of a catalog, reviews, and what a handler is found for.
func (v *Server) serveKinds(w http.ResponseWriter, r *http.Request, root route.Root, catalog *kinds.Catalog, find finder) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok {
		respond.Error(w, r, fmt.Errorf("no request info for %q", r.URL.Path))
		return
	}
	if len(r.URL.RawQuery) > maxQuery {
		respond.Error(w, r, respond.BadRequest("the query has %d bytes, want no more than %d", len(r.URL.RawQuery), maxQuery))
		return
	}
	if !info.IsResourceRequest {
		v.serveDocument(w, r, v.config.Documents.Handler(catalog))
		return
	}
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	kind, ok := catalog.Lookup(gvr)
	if !ok && root.Name == string(key.AllSpaces) {
		kind, ok = v.catalogs.anywhere(gvr)
	}
	if !ok {
		refuseResource(w, r, catalog, info)
		return
	}
	if r.Method == http.MethodHead && kind.Custom == nil {
		respond.Error(w, r, respond.Unrouted(http.StatusMethodNotAllowed))
		return
	}
	if err := needsCluster(kind, info); err != nil {
		respond.Error(w, r, err)
		return
	}
	if catalog.Access(kind) == kinds.Review && info.Verb == "create" {
		v.config.Reviews(catalog, kind)(w, r)
		return
	}
	handler, err := find(r.Context(), kind, info)
	if err != nil {
		respond.Error(w, r, asRouted(kind, err))
		return
	}
	handler(w, r.WithContext(schemacost.WithBudget(r.Context())))
}

// handlerFor chooses who serves a verb: reads come from the table, writes go
// through the space's registries.
func (v *Server) handlerFor(ctx context.Context, lens read.Lens, catalog *kinds.Catalog, kind *kinds.Kind, info *request.RequestInfo) (http.HandlerFunc, error) {
	s, writable := write.SpaceFromContext(ctx)
	if kind.Custom != nil {
		for _, message := range kind.Custom.Warnings() {
			warning.AddWarning(ctx, "", message)
		}
	}
	reading := slices.Contains([]string{"get", "list", "watch"}, info.Verb)
	if err := catalog.Waits(kind, info.Verb); err != nil {
		return nil, err
	}
	// If the kind's CRD is being deleted, the space's own handler refuses what it must.
	access := catalog.Access(kind)
	if !access.Allows(info.Verb) && access != kinds.Terminating || !reading && !writable {
		return nil, apierrors.NewMethodNotSupported(kind.GVR.GroupResource(), info.Verb)
	}
	if s == key.Root && kind.Resource == key.Locations && info.Subresource == kinds.TokenSubresource {
		return v.config.Tokens(key.Location(info.Name), info.Verb)
	}
	if reading && info.Subresource != kinds.ScaleSubresource {
		return v.config.Views.Handler(lens, kind, info)
	}
	if !writable {
		return nil, apierrors.NewMethodNotSupported(kind.GVR.GroupResource(), info.Verb)
	}
	return v.config.Spaces.Handler(kind, s, info)
}

func (v *Server) serveDocument(w http.ResponseWriter, r *http.Request, discovery http.Handler) {
	switch {
	case r.Method != http.MethodGet:
		respond.Error(w, r, respond.Unrouted(http.StatusMethodNotAllowed))
		return
	case r.URL.Path == route.Version:
		ServeVersion(w, r)
		return
	case slices.Contains([]string{route.Healthz, route.Livez, route.Readyz}, r.URL.Path): // a space is as healthy as its hub
		ServeHealth(w, nil)
		return
	}
	discovery.ServeHTTP(w, r)
}
