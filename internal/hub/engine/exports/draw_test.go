package exports

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
)

// What there is in the tests: two providers, of which one is a consumer, too; two spaces; an
// exported kind in namespaces, and one that is in none; the same of claimed kinds.
var (
	drawnWidgets  = v1alpha1.ExportedResource{Group: "example.com", Resource: "widgets"}
	drawnGadgets  = v1alpha1.ExportedResource{Group: "example.com", Resource: "gadgets"}
	drawnSecrets  = v1alpha1.ExportedResource{Resource: "secrets"}
	drawnClasses  = v1alpha1.ExportedResource{Group: "storage.k8s.io", Resource: "storageclasses"}
	drawnValues   = []string{"", "a", "b", "c", illegal}
	drawnReferred = []v1alpha1.ClaimReference{
		{ExportedResource: drawnWidgets, Path: ".spec.secret"}, {ExportedResource: drawnWidgets, Path: ".spec.other"},
		{ExportedResource: drawnGadgets, Path: ".spec.secret"},
	}
	drawnPolicies = []string{
		"root/orrery.dev/spaces/p", "root/orrery.dev/spaces/q",
		"p/orrery.dev/apiexports/e", "p/orrery.dev/apiexports/f", "q/orrery.dev/apiexports/e",
		"p/orrery.dev/apiexportviews/v", "p/orrery.dev/apiexportviews/w", "q/orrery.dev/apiexportviews/v",
		"c/orrery.dev/apibindings/b", "c/orrery.dev/apibindings/b2", "q/orrery.dev/apibindings/b",
	}
	drawnThings = []string{
		"c/example.com/widgets/n/x", "c/example.com/widgets/n/y", "c/example.com/widgets/m/x", "c/example.com/gadgets/x", "q/example.com/widgets/n/x",
		"c/core/secrets/n/x", "c/core/secrets/n/y", "c/core/secrets/m/x", "c/storage.k8s.io/storageclasses/x", "q/core/secrets/n/x", "d/core/secrets/n/x",
	}
	drawnPaths = slices.Concat(drawnPolicies, drawnThings)
)

func one[V any](t *rapid.T, what string, choices ...V) V {
	return rapid.SampledFrom(choices).Draw(t, what)
}

func some[V any](t *rapid.T, what string, choices ...V) []V {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(choices), 0, len(choices), func(v V) string { return fmt.Sprint(v) }).Draw(t, what)
}

// most are nearly all.
func most[V any](t *rapid.T, what string, choices ...V) (all []V) {
	for _, v := range choices {
		if often(t, what) {
			all = append(all, v)
		}
	}
	return all
}

// often is true most of the time.
func often(t *rapid.T, what string) bool { return rapid.IntRange(0, 9).Draw(t, what) < 9 }

func uid(t *rapid.T) string {
	if often(t, "the first") {
		return "1"
	}
	return "2"
}

// draw is an object of a path.
func draw(t *rapid.T, path string) any {
	var space, group, resource string
	_ = splitPath(path, &space, &group, &resource)
	meta := metav1.ObjectMeta{UID: types.UID(uid(t))}
	if !often(t, "stays") {
		meta.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	switch resource {
	case "spaces":
		return &v1alpha1.Space{ObjectMeta: meta}
	case "apiexports":
		return &v1alpha1.APIExport{ObjectMeta: meta, Spec: v1alpha1.APIExportSpec{
			Resources: most(t, "resources", drawnWidgets, drawnGadgets), Claims: drawClaims(t),
		}}
	case "apiexportviews":
		v := &v1alpha1.APIExportView{ObjectMeta: meta, Spec: v1alpha1.APIExportViewSpec{Export: one(t, "export", "e", "e", "e", "f")}}
		v.Spec.Split = one(t, "split", v1alpha1.Split{Label: "class"}, v1alpha1.Split{Field: ".spec.class"})
		if rapid.Bool().Draw(t, "listed") {
			v.Spec.Values = append(some(t, "values", "a", "b"), "c")
		}
		return v
	case "apibindings":
		return drawBinding(t, meta)
	}
	return drawThing(t)
}

func drawClaims(t *rapid.T) (all []v1alpha1.APIClaim) {
	for _, r := range most(t, "claims", drawnSecrets, drawnClasses) {
		c := v1alpha1.APIClaim{Group: r.Group, Resource: r.Resource, Verbs: []string{"*"}, ReferredBy: most(t, "referred by", drawnReferred...)}
		if !often(t, "all") {
			c.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"class": "a"}}
		}
		all = append(all, c)
	}
	return all
}

func drawBinding(t *rapid.T, meta metav1.ObjectMeta) any {
	if !often(t, "for us") {
		meta.Labels = map[string]string{v1alpha1.ForLabel: v1alpha1.ForBelow}
	}
	b := &v1alpha1.APIBinding{ObjectMeta: meta}
	b.Spec.Export = v1alpha1.ExportReference{Space: one(t, "provider", "p", "p", "p", "q"), Name: one(t, "bound", "e", "e", "e", "f")}
	b.Status.SpaceUID = one(t, "of", "", "1", "1", "1", "1", "2")
	for _, r := range most(t, "has", drawnWidgets, drawnGadgets) {
		b.Status.Resources = append(b.Status.Resources, v1alpha1.BoundResource{
			ExportedResource: r, Kind: map[string]string{"widgets": "Widget", "gadgets": "Gadget"}[r.Resource], Namespaced: r == drawnWidgets, Versions: []string{one(t, "version", "v1", "v2")},
		})
	}
	b.Status.Claims = drawClaims(t)
	for _, r := range most(t, "decides", drawnSecrets, drawnClasses) {
		state := v1alpha1.ClaimRejected
		if often(t, "accepts") {
			state = v1alpha1.ClaimAccepted
		}
		b.Spec.Claims = append(b.Spec.Claims, v1alpha1.ClaimDecision{Group: r.Group, Resource: r.Resource, State: state})
	}
	return b
}

func drawThing(t *rapid.T) *thing {
	o := &thing{Metadata: thingMeta{UID: uid(t)}, Spec: map[string]string{}}
	if v := one(t, "label", drawnValues...); v != "" || rapid.Bool().Draw(t, "empty") {
		o.Metadata.Labels = map[string]string{"class": v}
	}
	for _, field := range []string{"class", "secret", "other"} {
		values := drawnValues
		if field != "class" {
			values = []string{"", "x", "y"}
		}
		if v := one(t, field, values...); v != "" {
			o.Spec[field] = v
		}
	}
	o.Metadata.OwnerReferences = some(t, "owners",
		ownerRef{"example.com/v1", "Widget", "x", "1"}, ownerRef{"example.com/v1", "Widget", "y", "1"}, ownerRef{"example.com/v1", "Gadget", "x", "1"},
		ownerRef{"v1", "Widget", "x", "1"})
	return o
}
