// Package kubeapi serves the Kubernetes APIs of a hub: of each space, of all spaces together, of each
// location, of the objects that locations report, and of export views. It finds the kind of a request
// and the handler for its verb: package read serves reads from the table, package write serves writes.
//
// It must never decide which users may send a request, nor what an object means.
package kubeapi

import (
	"cmp"
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

// Config configures a Server.
type Config struct {
	// Catalogs returns the kinds, and Documents serves their descriptions.
	Catalogs  Catalogs
	Documents *discovery.Server
	// Views serves reads, and Spaces serves writes.
	Views  *read.Server
	Spaces *write.Server
	// Reviews returns the handler of access reviews.
	Reviews func(*kinds.Catalog, *kinds.Kind) http.HandlerFunc
	// Tokens returns the handler for a verb on the tokens of a location.
	Tokens func(l key.Location, verb string) (http.HandlerFunc, error)
	// UID returns the UID of a location; it fails if the location does not exist.
	UID func(key.Location) (string, error)
	// Exports computes the contents of export views.
	Exports *exports.Engine
	// Reads and Writes limit concurrent requests, and share the turns fairly between spaces and locations.
	Reads, Writes respond.Limiter
	// Committed waits until the table contains all writes that the hub has acknowledged to any client.
	Committed func(context.Context) error
	// RequestInfo describes requests in messages about panics.
	RequestInfo request.RequestInfoResolver
	// Logger logs errors of CRDs.
	Logger *slog.Logger
}

// Server serves Kubernetes APIs. It is safe for concurrent use.
type Server struct {
	config   Config
	catalogs Catalogs
	cascades cascades
}

// New returns a Server.
func New(config Config) *Server {
	return &Server{config, config.Catalogs, newCascades(config.Committed)}
}

// ServeSpace serves the API of a space, or of all spaces. The context of the request must have its
// RequestInfo.
func (v *Server) ServeSpace(w http.ResponseWriter, r *http.Request, root route.Root) {
	v.filtered(w, r, root, v.serveSpace)
}

// ServeView serves the API of a location, as ServeSpace does.
func (v *Server) ServeView(w http.ResponseWriter, r *http.Request, root route.Root) {
	v.filtered(w, r, root, v.serveView)
}

// serveSpace serves one space, or all spaces.
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
		warning.AddWarning(r.Context(), "", fmt.Sprintf("space %q does not exist; its name is in the server URL of the kubeconfig", root.Name))
		respond.Error(w, r, apierrors.NewNotFound(schema.GroupResource{Group: key.Spaces.Group, Resource: key.Spaces.Resource}, root.Name))
		return
	}
	catalog, err := v.catalogs.Kinds.Catalog(s, v.catalogs.Table.Snapshot())
	if err != nil { // a CRD can't be compiled; the other kinds are served
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

// maxQuery is the maximum size of a query in bytes: the hub compares each term of a selector with
// each object of a list and of a watch.
const maxQuery = 16 << 10

// serveAPI serves one API root: its documents, reads through a lens and, if the lens shows a single
// space, writes.
func (v *Server) serveAPI(w http.ResponseWriter, r *http.Request, root route.Root, lens read.Lens, catalog *kinds.Catalog) {
	v.serveKinds(w, r, root, catalog, func(ctx context.Context, kind *kinds.Kind, info *request.RequestInfo) (http.HandlerFunc, error) {
		return v.handlerFor(ctx, lens, catalog, kind, info)
	})
}

// finder returns the handler of a request about a kind.
type finder func(context.Context, *kinds.Kind, *request.RequestInfo) (http.HandlerFunc, error)

// serveKinds serves the documents of a catalog, access reviews, and the requests for which find
// returns a handler.
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
	if err := cmp.Or(needsCluster(kind, info), needsPods(kind, info, r.Header)); err != nil {
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
	if s, writable := write.SpaceFromContext(r.Context()); writable {
		handler = v.cascades.wrap(handler, r, v.catalogs.Table, s, kind, info)
	}
	handler(w, r.WithContext(schemacost.WithBudget(r.Context())))
}

// handlerFor returns the handler for a verb: package read serves reads from the table, package
// write serves writes.
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
	// While the kind's CRD is being deleted, the handler of writes refuses creates.
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
	case slices.Contains([]string{route.Healthz, route.Livez, route.Readyz}, r.URL.Path): // a space is healthy while its hub serves
		ServeHealth(w, nil)
		return
	}
	discovery.ServeHTTP(w, r)
}
