package kubeapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/kubeapi/read"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// ServeShelf serves the API of a shelf, as ServeSpace does: the objects that consumers of an
// APIExport have of its kinds, and those that they let its provider have. Requests take turns
// with the others about the provider's space.
func (v *Server) ServeShelf(w http.ResponseWriter, r *http.Request, root route.Root) {
	f, s, ok := root.Shelf()
	if !ok {
		respond.Error(w, r, respond.NotFound(root.String()))
		return
	}
	v.filtered(w, r, route.Space(f.Space), func(w http.ResponseWriter, r *http.Request, _ route.Root) {
		v.serveShelf(w, r, root, shelf{Shelf: f, space: s})
	})
}

// shelf is a shelf, and the space, or key.AllSpaces, whose objects on it are asked for.
type shelf struct {
	key.Shelf
	space key.Space
}

func (v *Server) serveShelf(w http.ResponseWriter, r *http.Request, root route.Root, f shelf) {
	if err := v.config.Committed(r.Context()); err != nil {
		respond.Error(w, r, err)
		return
	}
	snapshot := v.catalogs.Table.Snapshot()
	exported, claims, ok := v.config.Exports.Resources(f.Shelf)
	if !ok || !write.Exists(v.catalogs.Table, f.Shelf.Space) || f.View && snapshot.Get(f.Key()) == nil { // or it came after that state
		respond.Error(w, r, f.missing())
		return
	}
	if f.space != key.AllSpaces && !v.config.Exports.Bound(f.Shelf, f.space) {
		respond.Error(w, r, apierrors.NewNotFound(schema.GroupResource{Group: key.Spaces.Group, Resource: key.Spaces.Resource}, string(f.space)))
		return
	}
	catalog := v.catalogs.ofShelf(f.Shelf.Space, snapshot, exported, claims)
	v.serveKinds(w, r, root, catalog, func(ctx context.Context, kind *kinds.Kind, info *request.RequestInfo) (http.HandlerFunc, error) {
		return v.shelfHandler(ctx, f, snapshot, catalog, kind, info)
	})
}

// missing is the error that there is no such export, view or slice.
func (f shelf) missing() error {
	resource, name := key.APIExports, f.Name
	if f.View {
		resource = key.APIExportViews
	}
	if f.Value != "" {
		name += ":" + f.Value
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: resource.Group, Resource: resource.Resource}, name)
}

// ofShelf has the kinds that a provider exports, as its own CRDs define them, those that it
// claims, and reviews.
func (c Catalogs) ofShelf(provider key.Space, snapshot *table.Snapshot, exported []v1alpha1.ExportedResource, claims []v1alpha1.APIClaim) *kinds.Catalog {
	// An error concerns a CRD; what it defines is not found below then.
	own, _ := c.Kinds.Catalog(provider, snapshot)
	var all []*kinds.Kind
	access := map[*kinds.Kind]kinds.Access{}
	for _, k := range own.Kinds() {
		r := v1alpha1.ExportedResource{Group: k.GVK.Group, Resource: k.Resource.Resource}
		switch {
		case own.Access(k) == kinds.Review:
			access[k] = kinds.Review
		case own.Owner(k).Resource == key.CRDs:
			if !slices.Contains(exported, r) {
				continue
			}
			access[k] = own.Access(k)
		case own.Owner(k) == key.Identity{}:
			i := slices.IndexFunc(claims, func(claim v1alpha1.APIClaim) bool { return key.NewResource(claim.Group, claim.Resource) == k.Resource })
			if i < 0 {
				continue
			}
			if !slices.ContainsFunc(claims[i].Verbs, writes) {
				access[k] = kinds.ReadOnly
			}
		default: // bound itself
			continue
		}
		all = append(all, k)
	}
	return kinds.NewCatalog(all, func(k *kinds.Kind) kinds.Access { return access[k] })
}

func writes(verb string) bool { return !slices.Contains(reads, verb) }

// reads are the verbs that change nothing.
var reads = []string{"get", "list", "watch"}

// shelfHandler chooses who serves a verb on a shelf. What is claimed takes that the verb is:
// of one space there, and of all by the export.
func (v *Server) shelfHandler(ctx context.Context, f shelf, snapshot *table.Snapshot, catalog *kinds.Catalog, kind *kinds.Kind, info *request.RequestInfo) (http.HandlerFunc, error) {
	if catalog.Access(kind) == kinds.Review {
		return nil, apierrors.NewMethodNotSupported(kind.GVR.GroupResource(), info.Verb)
	}
	if kind.Custom != nil {
		for _, message := range kind.Custom.Warnings() {
			warning.AddWarning(ctx, "", message)
		}
	}
	if kind.Custom == nil && !v.config.Exports.Allowed(f.Shelf, f.space, kind.Resource, info.Verb) {
		return nil, apierrors.NewForbidden(kind.GVR.GroupResource(), info.Name, f.unclaimed(kind, info.Verb))
	}
	if slices.Contains(reads, info.Verb) && info.Subresource != kinds.ScaleSubresource {
		scope := read.ExportViewScope{ID: f.Shelf, Space: f.space, DecidedAt: snapshot.Rev}
		if f.space == key.AllSpaces {
			scope.Clustered = clustered(v.catalogs.Kinds.Builtin(f.Shelf.Space), catalog)
			scope.Hidden = v.hidden(f.Shelf, snapshot, kind, info.Verb)
		}
		return v.config.Views.Handler(read.ExportView(scope), kind, info)
	}
	scope := write.ExportViewScope{ID: f.Shelf, Space: f.space, Clustered: clustered(v.catalogs.Kinds.Builtin(f.Shelf.Space), catalog)}
	return v.config.Spaces.ExportHandler(kind, scope, info)
}

// unclaimed says why a verb is not let through.
func (f shelf) unclaimed(kind *kinds.Kind, verb string) error {
	if f.space == key.AllSpaces {
		return fmt.Errorf("no claim of %s is to %s them", kind.GVR.GroupResource(), verb)
	}
	return fmt.Errorf("space %q has not accepted a claim of %s to %s them", f.space, kind.GVR.GroupResource(), verb)
}

// clustered are the kinds of catalogs that are in no namespace.
func clustered(catalogs ...*kinds.Catalog) (all []schema.GroupKind) {
	for _, c := range catalogs {
		for _, k := range c.Kinds() {
			if !k.Namespaced {
				all = append(all, k.GVK.GroupKind())
			}
		}
	}
	return all
}

// hidden are the spaces that have accepted a claim of a kind when it was not for a verb: their
// objects are on the shelf, also if nothing may be done with them.
func (v *Server) hidden(f key.Shelf, snapshot *table.Snapshot, kind *kinds.Kind, verb string) (all map[key.Space]*table.Entry) {
	if kind.Custom != nil {
		return nil
	}
	export := f.Name
	if f.View {
		export = gjson.GetBytes(snapshot.Get(f.Key()).Value, "spec.export").String()
	}
	for _, s := range v.config.Exports.Bindings(f.Space, export) {
		if !v.config.Exports.Shows(f, s, kind.Resource) || v.config.Exports.Allowed(f, s, kind.Resource, verb) {
			continue
		}
		for _, b := range binding.Of(snapshot, s) {
			if b.Provider() != f.Space || b.Spec.Export.Name != export || b.Accepted(kind.Resource.APIGroup(), kind.Resource.Resource) == nil {
				continue // of several bindings of an export one has something
			}
			if all == nil {
				all = map[key.Space]*table.Entry{}
			}
			all[s] = b.Entry
		}
	}
	return all
}
