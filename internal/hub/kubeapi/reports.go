package kubeapi

import (
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kubeapi/read"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// ServeReports serves the API of the objects that locations report, as ServeSpace does. Requests
// about a space share the turns of that space.
func (v *Server) ServeReports(w http.ResponseWriter, r *http.Request, root route.Root) {
	s, _, ok := root.Reported()
	if !ok {
		respond.Error(w, r, respond.NotFound(root.String()))
		return
	}
	v.filtered(w, r, route.Space(s), func(w http.ResponseWriter, r *http.Request, _ route.Root) { v.serveReports(w, r, root) })
}

func (v *Server) serveReports(w http.ResponseWriter, r *http.Request, root route.Root) {
	s, l, _ := root.Reported()
	if err := v.config.Committed(r.Context()); err != nil {
		respond.Error(w, r, err)
		return
	}
	if s != key.AllSpaces && !write.Exists(v.catalogs.Table, s) {
		respond.Error(w, r, apierrors.NewNotFound(schema.GroupResource{Group: key.Spaces.Group, Resource: key.Spaces.Resource}, string(s)))
		return
	}
	if l != key.AllLocations && !v.isVisible(s, l) {
		respond.Error(w, r, apierrors.NewNotFound(schema.GroupResource{Group: key.Locations.Group, Resource: key.Locations.Resource}, string(l)))
		return
	}
	var catalog *kinds.Catalog
	if info, ok := request.RequestInfoFrom(r.Context()); ok && info.IsResourceRequest {
		catalog = v.catalogs.ofReported(s, l, info)
	} else {
		catalog = v.catalogs.ofReports(s, l)
	}
	v.serveAPI(w, r, root, read.Reports(s, l), catalog)
}

// isVisible reports whether readers of a space may know that a location exists: the location admits
// the space, or has reported objects of the space.
func (v *Server) isVisible(s key.Space, l key.Location) bool {
	row, _ := v.catalogs.Table.Get(l.Key())
	return row != nil && (s == key.AllSpaces || placement.Shown(row, s) || read.HasReports(v.catalogs.Table, s, l))
}

func readOnly(*kinds.Kind) kinds.Access { return kinds.ReadOnly }

// ofReports returns exactly the kinds of the objects in a view of reports.
func (c Catalogs) ofReports(s key.Space, l key.Location) *kinds.Catalog {
	snapshot := c.Table.Snapshot()
	seen := map[*kinds.Kind]bool{}
	var all []*kinds.Kind
	for _, found := range read.ReportedKinds(snapshot, s, l, nil) {
		if k := c.reported(snapshot, s, found); k != nil && !seen[k] {
			seen[k] = true
			all = append(all, k)
		}
	}
	return kinds.NewCatalog(all, readOnly)
}

// ofReported returns a catalog with the kind of a request. A kind that the space defines is found
// before any location reports an object of it. Locations may disagree on whether an undefined kind
// is namespaced: a request for one namespace or one name then gets the kind that fits the request.
func (c Catalogs) ofReported(s key.Space, l key.Location, info *request.RequestInfo) *kinds.Catalog {
	snapshot, gvr := c.Table.Snapshot(), schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if k := c.known(snapshot, s, gvr); k != nil {
		return kinds.NewCatalog([]*kinds.Kind{k}, readOnly)
	}
	resource := key.NewResource(gvr.Group, gvr.Resource)
	var all []*kinds.Kind
	for _, found := range read.ReportedKinds(snapshot, s, l, &resource) {
		if k := c.reported(snapshot, s, found); k != nil && k.GVR == gvr {
			all = append(all, k)
		}
	}
	if i := slices.IndexFunc(all, func(k *kinds.Kind) bool { return k.Namespaced == (info.Namespace != "") }); i > 0 && (info.Namespace != "" || info.Name != "") {
		all[0], all[i] = all[i], all[0]
	}
	return kinds.NewCatalog(all, readOnly) // of kinds with the same name, the first is used
}

// reported returns the kind of reported objects; nil if it is unknown.
func (c Catalogs) reported(snapshot *table.Snapshot, s key.Space, found read.ReportedKind) *kinds.Kind {
	if found.GVK.Kind == "" { // the objects were placed, so their space defines the kind
		// An error is about one CRD, whose kinds are then not found below.
		catalog, _ := c.Kinds.Catalog(found.Space, snapshot)
		k, ok := catalog.ForStorage(found.Resource)
		if !ok {
			return nil
		}
		return c.shown(s, k)
	}
	if k := c.known(snapshot, s, found.GVR()); k != nil {
		return k
	}
	k, _ := c.Kinds.Unknown(found.GVR(), found.GVK.Kind, found.Namespaced) // nil for an invalid name, which no client can request
	return k
}

// known returns a kind that the space, or for key.AllSpaces any space, defines; nil if there is none.
func (c Catalogs) known(snapshot *table.Snapshot, s key.Space, gvr schema.GroupVersionResource) *kinds.Kind {
	var k *kinds.Kind
	var ok bool
	if s != key.AllSpaces {
		// An error is about one CRD, whose kinds are then not found below.
		catalog, _ := c.Kinds.Catalog(s, snapshot)
		k, ok = catalog.Lookup(gvr)
		ok = ok && catalog.Access(k) != kinds.Review
	} else if k, ok = c.Kinds.Builtin(key.Root).Lookup(gvr); !ok {
		k, ok = c.anywhere(gvr)
	} else {
		ok = c.Kinds.Builtin(key.Root).Access(k) != kinds.Review
	}
	if !ok {
		return nil
	}
	return c.shown(s, k)
}

// shown returns a kind as it is served for a space, or for all spaces. Two spaces may define a kind
// differently, so custom kinds are served for all spaces without a schema.
func (c Catalogs) shown(s key.Space, k *kinds.Kind) *kinds.Kind {
	if s != key.AllSpaces || k.Custom == nil || k.GVR.Group == key.Spaces.Group {
		return k
	}
	k, _ = c.Kinds.Unknown(k.GVR, k.GVK.Kind, k.Namespaced) // the names are valid, since a CRD has them
	return k
}
