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

// ServeExportView serves the API of an export view, as ServeSpace does. The view contains the objects
// of the exported kinds in the spaces of consumers, and their objects of other kinds that a claim
// gives to the provider. Requests share the turns of the provider's space.
func (v *Server) ServeExportView(w http.ResponseWriter, r *http.Request, root route.Root) {
	f, s, ok := root.ExportView()
	if !ok {
		respond.Error(w, r, respond.NotFound(root.String()))
		return
	}
	v.filtered(w, r, route.Space(f.Space), func(w http.ResponseWriter, r *http.Request, _ route.Root) {
		v.serveExportView(w, r, root, viewRequest{ExportView: f, space: s})
	})
}

// viewRequest identifies the export view of a request, and the space, or key.AllSpaces, whose
// objects it requests.
type viewRequest struct {
	key.ExportView
	space key.Space
}

func (v *Server) serveExportView(w http.ResponseWriter, r *http.Request, root route.Root, f viewRequest) {
	if err := v.config.Committed(r.Context()); err != nil {
		respond.Error(w, r, err)
		return
	}
	snapshot := v.catalogs.Table.Snapshot()
	exported, claims, ok := v.config.Exports.Resources(f.ExportView)
	if !ok || !write.Exists(v.catalogs.Table, f.ExportView.Space) || f.View && snapshot.Get(f.Key()) == nil { // the snapshot may be older than the view
		respond.Error(w, r, f.missing())
		return
	}
	if f.space != key.AllSpaces && !v.config.Exports.Bound(f.ExportView, f.space) {
		respond.Error(w, r, apierrors.NewNotFound(schema.GroupResource{Group: key.Spaces.Group, Resource: key.Spaces.Resource}, string(f.space)))
		return
	}
	catalog := v.catalogs.ofExportView(f.ExportView.Space, snapshot, exported, claims)
	v.serveKinds(w, r, root, catalog, func(ctx context.Context, kind *kinds.Kind, info *request.RequestInfo) (http.HandlerFunc, error) {
		return v.exportViewHandler(ctx, f, snapshot, catalog, kind, info)
	})
}

// missing returns the error that the export, view or slice does not exist.
func (f viewRequest) missing() error {
	resource, name := key.APIExports, f.Name
	if f.View {
		resource = key.APIExportViews
	}
	if f.Value != "" {
		name += ":" + f.Value
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: resource.Group, Resource: resource.Resource}, name)
}

// ofExportView returns the kinds that a provider exports, as its own CRDs define them, the kinds that
// it claims, and the kinds of access reviews.
func (c Catalogs) ofExportView(provider key.Space, snapshot *table.Snapshot, exported []v1alpha1.ExportedResource, claims []v1alpha1.APIClaim) *kinds.Catalog {
	// An error is about one CRD, whose kinds are then not found below.
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
		default: // the provider has bound the kind itself
			continue
		}
		all = append(all, k)
	}
	return kinds.NewCatalog(all, func(k *kinds.Kind) kinds.Access { return access[k] })
}

func writes(verb string) bool { return !slices.Contains(reads, verb) }

// reads are the verbs that change nothing.
var reads = []string{"get", "list", "watch"}

// exportViewHandler returns the handler for a verb in an export view. A verb on claimed objects must
// be in the claim: for one space in the claim that the space has accepted, for all spaces in the
// claim of the export.
func (v *Server) exportViewHandler(ctx context.Context, f viewRequest, snapshot *table.Snapshot, catalog *kinds.Catalog, kind *kinds.Kind, info *request.RequestInfo) (http.HandlerFunc, error) {
	if catalog.Access(kind) == kinds.Review {
		return nil, apierrors.NewMethodNotSupported(kind.GVR.GroupResource(), info.Verb)
	}
	if kind.Custom != nil {
		for _, message := range kind.Custom.Warnings() {
			warning.AddWarning(ctx, "", message)
		}
	}
	if kind.Custom == nil && !v.config.Exports.Allowed(f.ExportView, f.space, kind.Resource, info.Verb) {
		return nil, apierrors.NewForbidden(kind.GVR.GroupResource(), info.Name, f.unclaimed(kind, info.Verb))
	}
	if slices.Contains(reads, info.Verb) && info.Subresource != kinds.ScaleSubresource {
		scope := read.ExportViewScope{ID: f.ExportView, Space: f.space, DecidedAt: snapshot.Rev}
		if f.space == key.AllSpaces {
			scope.Clustered = clustered(v.catalogs.Kinds.Builtin(f.ExportView.Space), catalog)
			scope.Hidden = v.hidden(f.ExportView, snapshot, kind, info.Verb)
		}
		return v.config.Views.Handler(read.ExportView(scope), kind, info)
	}
	scope := write.ExportViewScope{ID: f.ExportView, Space: f.space, Clustered: clustered(v.catalogs.Kinds.Builtin(f.ExportView.Space), catalog)}
	return v.config.Spaces.ExportHandler(kind, scope, info)
}

// unclaimed returns the reason why a verb is refused.
func (f viewRequest) unclaimed(kind *kinds.Kind, verb string) error {
	if f.space == key.AllSpaces {
		return fmt.Errorf("the export has no claim of %s with verb %q", kind.GVR.GroupResource(), verb)
	}
	return fmt.Errorf("space %q has not accepted a claim of %s with verb %q", f.space, kind.GVR.GroupResource(), verb)
}

// clustered returns the cluster-scoped kinds of catalogs.
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

// hidden returns the spaces that have accepted a claim of a kind, but not for a verb. Their objects
// belong to the export view, although the provider may not use this verb on them.
func (v *Server) hidden(f key.ExportView, snapshot *table.Snapshot, kind *kinds.Kind, verb string) (all map[key.Space]*table.Entry) {
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
		for _, b := range binding.InSpace(snapshot, s) {
			if b.Provider() != f.Space || b.Spec.Export.Name != export || b.Accepted(kind.Resource.APIGroup(), kind.Resource.Resource) == nil {
				continue // a space may have several bindings of an export, of which only one has objects
			}
			if all == nil {
				all = map[key.Space]*table.Entry{}
			}
			all[s] = b.Entry
		}
	}
	return all
}
