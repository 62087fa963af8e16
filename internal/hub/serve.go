package hub

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/view"
)

// serveSpace serves one space, or the wildcard over all of them.
func (h *Hub) serveSpace(w http.ResponseWriter, r *http.Request, root route.Root) {
	s := key.Space(root.Name)
	if err := h.waitCommitted(r.Context()); err != nil {
		respond.Error(w, r, err)
		return
	}
	if s == key.AllSpaces {
		h.serveAPI(w, r, root, view.AllSpaces(), h.registry.Builtin(key.Root))
		return
	}
	if !space.Exists(h.table, s) {
		respond.Error(w, r, apierrors.NewNotFound(schema.GroupResource{Group: key.Spaces.Group, Resource: key.Spaces.Resource}, root.Name))
		return
	}
	catalog, err := h.registry.Catalog(s, h.table.Snapshot())
	if err != nil { // a CRD that can't be compiled; the rest is served
		h.config.Logger.Warn("catalog of a space", "space", s, "error", err)
	}
	h.serveAPI(w, r.WithContext(space.WithSpace(r.Context(), s)), root, view.Space(s), catalog)
}

// serveView serves the view of one location.
func (h *Hub) serveView(w http.ResponseWriter, r *http.Request, root route.Root) {
	l := key.Location(root.Name)
	if err := h.waitCommitted(r.Context()); err != nil {
		respond.Error(w, r, err)
		return
	}
	if _, _, err := h.agents.Settings(l); err != nil {
		respond.Error(w, r, err)
		return
	}
	h.serveAPI(w, r, root, view.Location(l), h.locationCatalog(l))
}

// serveAPI serves one API root: its documents, reads through a lens, and, if
// the lens is of a single space, writes.
func (h *Hub) serveAPI(w http.ResponseWriter, r *http.Request, root route.Root, lens view.Lens, catalog *kinds.Catalog) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok {
		respond.Error(w, r, fmt.Errorf("no request info for %q", r.URL.Path))
		return
	}
	if !info.IsResourceRequest {
		h.serveDocument(w, r, h.documents.Handler(catalog))
		return
	}
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	kind, ok := catalog.Lookup(gvr)
	if !ok && root.Name == string(key.AllSpaces) {
		kind, ok = h.definedAnywhere(gvr)
	}
	if !ok {
		h.refuseResource(w, r, catalog, info)
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
		h.access.ReviewHandler(catalog, kind)(w, r)
		return
	}
	handler, err := h.handlerFor(r.Context(), lens, catalog, kind, info)
	if err != nil {
		respond.Error(w, r, asRouted(kind, err))
		return
	}
	handler(w, r)
}

// handlerFor chooses who serves a verb: reads come from the table, writes go
// through the space's registries.
func (h *Hub) handlerFor(ctx context.Context, lens view.Lens, catalog *kinds.Catalog, kind *kinds.Kind, info *request.RequestInfo) (http.HandlerFunc, error) {
	s, writable := space.SpaceFrom(ctx)
	if kind.Custom != nil {
		for _, message := range kind.Custom.Warnings() {
			warning.AddWarning(ctx, "", message)
		}
	}
	read := slices.Contains([]string{"get", "list", "watch"}, info.Verb)
	// If the kind's CRD is being deleted, the space's own handler refuses what it must.
	access := catalog.Access(kind)
	if !access.Allows(info.Verb) && access != kinds.Terminating || !read && !writable {
		return nil, apierrors.NewMethodNotSupported(kind.GVR.GroupResource(), info.Verb)
	}
	if s == key.Root && kind.Resource == key.Locations && info.Subresource == kinds.TokenSubresource {
		return h.tokenHandler(key.Location(info.Name), info.Verb)
	}
	if read && info.Subresource != kinds.ScaleSubresource {
		return h.views.Handler(lens, kind, info)
	}
	if !writable {
		return nil, apierrors.NewMethodNotSupported(kind.GVR.GroupResource(), info.Verb)
	}
	return h.spaces.Handler(kind, s, info)
}

// catalogOf has the kinds of a space as it is now.
func (h *Hub) catalogOf(s key.Space) *kinds.Catalog {
	// An error concerns a CRD; what it defines is not found then.
	catalog, _ := h.registry.Catalog(s, h.table.Snapshot())
	return catalog
}

// defines says whether a space still defines a kind with the same definition.
func (h *Hub) defines(s key.Space, kind *kinds.Kind) bool {
	// An error concerns a CRD; what it defines is not found below then.
	catalog, _ := h.registry.Catalog(s, h.table.Snapshot())
	now, ok := catalog.Lookup(kind.GVR)
	return ok && now.Custom != nil && now.Custom.Hash() == kind.Custom.Hash()
}

// definedAnywhere finds a kind that some space's CRD defines, for reads across
// all spaces, which show metadata only.
func (h *Hub) definedAnywhere(gvr schema.GroupVersionResource) (*kinds.Kind, bool) {
	snapshot := h.table.Snapshot()
	definition := key.Identity{Resource: key.CRDs, Name: gvr.Resource + "." + gvr.Group}
	for _, s := range space.All(snapshot) {
		if snapshot.Get(key.Object{Space: s, Identity: definition}.Key()) == nil {
			continue
		}
		// An error concerns a CRD; what it defines is not found below then.
		catalog, _ := h.registry.Catalog(s, snapshot)
		if kind, ok := catalog.Lookup(gvr); ok {
			return kind, true
		}
	}
	return nil, false
}

func (h *Hub) serveDocument(w http.ResponseWriter, r *http.Request, discovery http.Handler) {
	switch {
	case r.Method != http.MethodGet:
		respond.Error(w, r, respond.Unrouted(http.StatusMethodNotAllowed))
		return
	case r.URL.Path == route.Version:
		h.serveVersion(w, r)
		return
	case slices.Contains([]string{route.Healthz, route.Livez, route.Readyz}, r.URL.Path): // a space is as healthy as its hub
		h.serveHealth(w, r)
		return
	}
	discovery.ServeHTTP(w, r)
}

// locationCatalog has exactly the kinds of the objects in a location's view.
func (h *Hub) locationCatalog(l key.Location) *kinds.Catalog {
	var places []key.Object
	h.table.AscendMembers(l, func(row *table.Row) (from string, more bool) {
		o, err := key.ParseObject(row.Key)
		if err != nil || !view.Holds(row, l) {
			return "", true
		}
		places = append(places, o)
		return key.After(key.ResourcePrefix(o.Space, o.Resource)), true
	})
	snapshot := h.table.Snapshot()
	seen := map[key.Resource]bool{}
	var all []*kinds.Kind
	for _, o := range places {
		if seen[o.Resource] {
			continue
		}
		seen[o.Resource] = true
		// An error concerns a CRD; what it serves is not found below then.
		catalog, _ := h.registry.Catalog(o.Space, snapshot)
		if kind, ok := catalog.ForStorage(o.Resource); ok {
			all = append(all, kind)
		}
	}
	return kinds.NewCatalog(all, func(*kinds.Kind) kinds.Access { return kinds.ReadOnly })
}
