package placement

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// HelmRelease is the release of Helm of whose templates an object was made, by what Helm
// writes on it: a label and two annotations. ok is false if Helm did not make it so, as
// the records that Helm keeps of releases, CRDs of a chart's crds/ and hooks.
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
