package hub_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// TestExportViewsRevealNoPast: what a space has rejected is not read of the time before, by no list
// of that and by no watch that goes on from there.
func TestExportViewsRevealNoPast(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c", "d")
	r.claims("get", "list", "watch")
	r.create("c", configMapsGVR, object("v1", "ConfigMap", "default", "x", nil, nil))
	r.create("c", configMapsGVR, object("v1", "ConfigMap", "default", "y", nil, nil))
	before := r.accepted("d")
	r.accepts("c")
	for _, s := range []key.Space{key.AllSpaces, "c"} {
		r.expectFirst(s, before, watch.Added)
	}
	first, err := r.exportView(wholeExport(), key.AllSpaces).Resource(configMapsGVR).List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	r.rejects("c")
	for _, from := range []string{before, first.GetResourceVersion()} {
		r.tellsNothing(key.AllSpaces, metav1.ListOptions{ResourceVersion: from, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		r.expectFirst(key.AllSpaces, from, watch.Error)
	}
	r.tellsNothing(key.AllSpaces, metav1.ListOptions{Limit: 1, Continue: first.GetContinue()})
	r.create("d", configMapsGVR, object("v1", "ConfigMap", "default", "z", nil, nil))
	r.expectFirst("d", before, watch.Added)

	r.accepts("c")
	for _, s := range []key.Space{key.AllSpaces, "c"} {
		r.tellsNothing(s, metav1.ListOptions{ResourceVersion: before, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		r.expectFirst(s, before, watch.Error)
	}
}

// TestExportViewsRevealNoPastOfHiddenObjects: what was accepted to be created alone is not read of
// that time when less is accepted to be read.
func TestExportViewsRevealNoPastOfHiddenObjects(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.claims("create")
	r.accepts("c")
	made := r.create("c", configMapsGVR, object("v1", "ConfigMap", "default", "x", nil, nil)).GetResourceVersion()
	r.patchObject("p", exportsGVR, "fleet",
		`{"spec":{"claims":[{"group":"","resource":"configmaps","verbs":["get","list","watch"],"selector":{"matchLabels":{"use":"e"}}}]}}`)
	r.rejects("c")
	r.accepts("c")
	for _, s := range []key.Space{key.AllSpaces, "c"} {
		r.tellsNothing(s, metav1.ListOptions{ResourceVersion: made, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		r.expectFirst(s, made, watch.Error)
	}
}

// TestExportViewsGoOnBesideBindings: writes to bindings and exports that change no claim, and the first
// acceptance by a space, make no client list again.
func TestExportViewsGoOnBesideBindings(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c", "d")
	r.claims("get", "list", "watch")
	r.create("d", configMapsGVR, object("v1", "ConfigMap", "default", "x", nil, nil))
	before := r.accepted("c")
	r.patchObject("c", bindingsGVR, "fleet", `{"metadata":{"labels":{"some":"label"}}}`)
	r.patchObject("p", exportsGVR, "fleet", `{"metadata":{"labels":{"some":"label"}}}`)
	r.patchObject("p", exportsGVR, "fleet", `{"spec":{"resources":[]}}`)
	r.bound("c", v1alpha1.ReasonNotExported)
	r.accepts("d")
	r.expectFirst(key.AllSpaces, before, watch.Added)
	r.create("c", configMapsGVR, object("v1", "ConfigMap", "default", "y", nil, nil))
	r.expectFirst("c", before, watch.Added)
	past := metav1.ListOptions{ResourceVersion: before, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	if l, err := r.exportView(wholeExport(), key.AllSpaces).Resource(configMapsGVR).List(t.Context(), past); err != nil || len(l.Items) > 0 {
		t.Errorf("%v, %v", l, err)
	}
}

// accepted is the revision at which a space has accepted the claim of ConfigMaps.
func (r *running) accepted(s key.Space) string {
	r.t.Helper()
	r.accepts(s)
	b, err := r.space(s).Resource(bindingsGVR).Get(r.t.Context(), "fleet", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return b.GetResourceVersion()
}

// rejects has a space take back that it accepted the claim of ConfigMaps.
func (r *running) rejects(s key.Space) {
	r.t.Helper()
	r.patchObject(s, bindingsGVR, "fleet", `{"spec":{"claims":[{"group":"","resource":"configmaps","state":"Rejected"}]}}`)
}

// expectFirst checks the first event after a revision of a watch of the ConfigMaps of the export: an error if
// the client has to list again.
func (r *running) expectFirst(s key.Space, after string, want watch.EventType) {
	r.t.Helper()
	w, err := r.exportView(wholeExport(), s).Resource(configMapsGVR).Watch(r.t.Context(), metav1.ListOptions{ResourceVersion: after})
	if err != nil {
		r.t.Fatal(err)
	}
	defer w.Stop()
	e := limit.Receive(r.t, w.ResultChan(), "an event")
	if e.Type != want || want == watch.Error && !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		r.t.Errorf("from %s on spaces/%s sends %s %v", after, s, e.Type, e.Object)
	}
}

// tellsNothing checks that a list of the ConfigMaps of the export is refused as too old.
func (r *running) tellsNothing(s key.Space, opts metav1.ListOptions) {
	r.t.Helper()
	if l, err := r.exportView(wholeExport(), s).Resource(configMapsGVR).List(r.t.Context(), opts); !apierrors.IsResourceExpired(err) {
		r.t.Errorf("%+v: %v, %v", opts, l, err)
	}
}
