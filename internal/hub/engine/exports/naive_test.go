package exports

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// thing is an object of a kind that is exported or claimed, in the words of the tests.
type thing struct {
	Metadata thingMeta         `json:"metadata"`
	Spec     map[string]string `json:"spec"`
}

type thingMeta struct {
	UID             string            `json:"uid"`
	Labels          map[string]string `json:"labels,omitempty"`
	OwnerReferences []ownerRef        `json:"ownerReferences,omitempty"`
}

type ownerRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// naive is a state, by paths. It answers everything by looking through it, in the words of
// the documentation.
type naive map[string]any

func in[T any](n naive, path string) *T {
	v, _ := n[path].(*T)
	return v
}

// each are the objects of a type below a prefix.
func each[T any](n naive, prefix string) map[string]*T {
	all := map[string]*T{}
	for path := range n {
		if v := in[T](n, path); v != nil && strings.HasPrefix(path, prefix) {
			all[path] = v
		}
	}
	return all
}

// given is the export of a binding that is in force.
func (n naive) given(b *v1alpha1.APIBinding) *v1alpha1.APIExport {
	provider := b.Spec.Export.Space
	space := in[v1alpha1.Space](n, "root/orrery.dev/spaces/"+provider)
	export := in[v1alpha1.APIExport](n, provider+"/orrery.dev/apiexports/"+b.Spec.Export.Name)
	if space == nil || space.DeletionTimestamp != nil || export == nil || export.DeletionTimestamp != nil || b.Labels[v1alpha1.ForLabel] != "" {
		return nil
	}
	if b.Status.SpaceUID != "" && b.Status.SpaceUID != string(space.UID) {
		return nil
	}
	return export
}

// naivePart is one export with the bindings of a space.
type naivePart struct {
	provider, name string
	export         *v1alpha1.APIExport
	bindings       []*v1alpha1.APIBinding
}

func (n naive) bindingsOf(space string) (all []naivePart) {
	for _, b := range each[v1alpha1.APIBinding](n, space+"/orrery.dev/apibindings/") {
		export := n.given(b)
		if export == nil {
			continue
		}
		i := slices.IndexFunc(all, func(p naivePart) bool { return p.export == export })
		if i < 0 {
			i = len(all)
			all = append(all, naivePart{provider: b.Spec.Export.Space, name: b.Spec.Export.Name, export: export})
		}
		all[i].bindings = append(all[i].bindings, b)
	}
	return all
}

// binds returns the bound resource, with its kind and scope; nil if the bindings do not have it.
func (p naivePart) binds(r v1alpha1.ExportedResource) *v1alpha1.BoundResource {
	if !slices.Contains(p.export.Spec.Resources, r) {
		return nil
	}
	for _, b := range p.bindings {
		for i := range b.Status.Resources {
			if b.Status.Resources[i].ExportedResource == r {
				return &b.Status.Resources[i]
			}
		}
	}
	return nil
}

// claim is one that is accepted: as it was then, and as it is now.
type claim struct{ then, now v1alpha1.APIClaim }

func (p naivePart) claims(r v1alpha1.ExportedResource) (all []claim) {
	for _, b := range p.bindings {
		for _, then := range b.Status.Claims {
			for _, now := range p.export.Spec.Claims {
				same := then.Group == now.Group && then.Resource == now.Resource && then.Group == r.Group && then.Resource == r.Resource
				if same && slices.Contains(b.Spec.Claims, v1alpha1.ClaimDecision{Group: r.Group, Resource: r.Resource, State: v1alpha1.ClaimAccepted}) {
					all = append(all, claim{then, now})
				}
			}
		}
	}
	return all
}

func (c claim) selects(o *thing) bool {
	for _, one := range []v1alpha1.APIClaim{c.then, c.now} {
		if one.Selector == nil {
			continue
		}
		if s, err := metav1.LabelSelectorAsSelector(one.Selector); err != nil || !s.Matches(labels.Set(o.Metadata.Labels)) {
			return false
		}
	}
	return true
}

// exportViewsOf returns the export views of an object, in order.
func (n naive) exportViewsOf(path string) (all []string) {
	o := in[thing](n, path)
	id, err := key.ParsePath(path)
	if o == nil || err != nil {
		return nil
	}
	r := v1alpha1.ExportedResource{Group: id.APIGroup(), Resource: id.Resource.Resource}
	for _, p := range n.bindingsOf(string(id.Space)) {
		bound, claimed := p.binds(r) != nil, slices.ContainsFunc(p.claims(r), func(c claim) bool { return c.selects(o) })
		if !bound && !claimed {
			continue
		}
		all = append(all, "e/"+p.provider+"/"+p.name)
		for path, v := range each[v1alpha1.APIExportView](n, p.provider+"/orrery.dev/apiexportviews/") {
			if v.Spec.Export != p.name || v.DeletionTimestamp != nil {
				continue
			}
			view := "v/" + p.provider + "/" + path[strings.LastIndex(path, "/")+1:] + "/"
			values := []string{valueOf(v, o)}
			if !bound && (v.Spec.Split.Label == "" || o.Metadata.Labels[v.Spec.Split.Label] == "") {
				values = n.followed(p, v, id, o)
			}
			values = slices.DeleteFunc(values, func(value string) bool { return !sliced(v, value) })
			if len(values) == 0 {
				values = []string{""}
			}
			for _, value := range values {
				all = append(all, view+value)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// followed returns the values of the exported objects that own a claimed one or, if there are none,
// of those that refer to it.
func (n naive) followed(p naivePart, v *v1alpha1.APIExportView, object key.Object, o *thing) []string {
	var owners, referring []string
	for path, referrer := range each[thing](n, string(object.Space)+"/") {
		id, err := key.ParsePath(path)
		if err != nil {
			continue
		}
		r := v1alpha1.ExportedResource{Group: id.APIGroup(), Resource: id.Resource.Resource}
		bound := p.binds(r)
		if bound == nil {
			continue
		}
		for _, ref := range o.Metadata.OwnerReferences {
			where := !bound.Namespaced && id.Namespace == "" || bound.Namespaced && id.Namespace == object.Namespace
			if where && ref == (ownerRef{r.Group + "/v1", bound.Kind, id.Name, referrer.Metadata.UID}) {
				owners = append(owners, valueOf(v, referrer))
			}
		}
		for _, c := range p.claims(v1alpha1.ExportedResource{Group: object.APIGroup(), Resource: object.Resource.Resource}) {
			for _, ref := range c.now.ReferredBy {
				there := object.Namespace == "" || object.Namespace == id.Namespace
				if there && ref.ExportedResource == r && slices.Contains(c.then.ReferredBy, ref) && referrer.Spec[strings.TrimPrefix(ref.Path, ".spec.")] == object.Name {
					referring = append(referring, valueOf(v, referrer))
				}
			}
		}
	}
	if len(owners) > 0 {
		return owners
	}
	return referring
}

func valueOf(v *v1alpha1.APIExportView, o *thing) string {
	if v.Spec.Split.Label != "" {
		return o.Metadata.Labels[v.Spec.Split.Label]
	}
	return o.Spec[strings.TrimPrefix(v.Spec.Split.Field, ".spec.")]
}

// sliced reports whether a value has a slice. One value in these tests is not a valid label.
func sliced(v *v1alpha1.APIExportView, value string) bool {
	return value != "" && value != illegal && (v.Spec.Values == nil || slices.Contains(v.Spec.Values, value))
}

const illegal = "not/legal"
