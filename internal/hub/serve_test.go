package hub_test

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestDeletedSpace shows that a deleted space is gone at once, ends its watches
// and leaves nothing in the log.
func TestDeletedSpace(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addConfigMap("one", nil, "1")
	configMaps := r.space("s").Resource(configMapsGVR).Namespace("default")
	watching, err := configMaps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	if err := r.space(key.Root).Resource(spacesGVR).Delete(t.Context(), "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := configMaps.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a list in the deleted space: %v", err)
	}
	timeout := time.After(timeout)
	for ended := false; !ended; {
		select {
		case _, ok := <-watching.ResultChan():
			ended = !ok
		case <-timeout:
			t.Fatal("the watch goes on")
		}
	}
	r.eventually(func() string {
		left := readTruth(t, r)
		if len(left.below(key.SpacePrefix("s"))) > 0 || len(left.below(key.ResourcePrefix(key.Root, key.Spaces))) > 0 {
			return fmt.Sprintf("left in the log: %v", left.objects)
		}
		return ""
	})
}

// TestAllSpaces shows the operators' view over all spaces.
func TestAllSpaces(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addConfigMap("one", nil, "1")
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	r.create("s", crds, widgetDefinition())
	widgets := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}
	r.create("s", widgets, object("example.org/v1", "Widget", "default", "w", nil, map[string]any{"spec": map[string]any{"size": int64(1)}}))
	list, err := r.space(key.AllSpaces).Resource(configMapsGVR).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetAnnotations()["orrery.dev/space"] != "s" {
		t.Errorf("ConfigMaps of all spaces: %+v, %v", list, err)
	}
	list, err = r.space(key.AllSpaces).Resource(widgets).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Object["spec"] != nil {
		t.Errorf("metadata of widgets of all spaces: %+v, %v", list, err)
	}
}

// TestLocationShowsCounts shows that a Location counts what is assigned to it,
// without a write.
func TestLocationShowsCounts(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.eventually(func() string {
		if status := r.location("a").Status; status.Assigned != 1 {
			return fmt.Sprintf("status is %+v", status)
		}
		return ""
	})
	for k, v := range readTruth(t, r).below(key.ResourcePrefix(key.Root, key.Locations)) {
		if n := dig(v, "status", "assigned"); n != nil && n != float64(0) {
			t.Errorf("location %s is stored with %v assigned", k, n)
		}
	}
}
