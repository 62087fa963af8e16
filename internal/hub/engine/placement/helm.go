package placement

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// HelmRelease returns the Helm release of an object, from the label and the two annotations that
// Helm writes on the objects of its templates. ok is false for other objects: also for the release
// records of Helm, CRDs in the crds/ folder of a chart, and hooks.
func HelmRelease(row *table.Row) (r v1alpha1.HelmRelease, ok bool) {
	if row.Meta.Labels.Get("app.kubernetes.io/managed-by") != "Helm" {
		return r, false
	}
	r.Name = row.Annotation("meta.helm.sh/release-name")
	if r.Name == "" {
		return r, false
	}
	r.Namespace = row.Annotation("meta.helm.sh/release-namespace")
	return r, true
}
