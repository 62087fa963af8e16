package shards

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
)

// TestNamespaceOfTwoShards shows that a Namespace that two shards assign belongs to the first shard,
// also if that shard created it before it was assigned. The Namespace remains after its space has
// removed the assignment, as long as it contains an object of the other shard, which is not written
// meanwhile. It is removed with the last assignment.
func TestNamespaceOfTwoShards(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	a, b := w.twoShards()
	belongs := func() error {
		n, err := w.Cluster.Client.CoreV1().Namespaces().Get(t.Context(), "x", metav1.GetOptions{})
		if err == nil && (n.Labels["orrery.dev/space"] != string(a) || n.DeletionTimestamp != nil) {
			err = fmt.Errorf("it has the labels %v, and is deleted at %v", n.Labels, n.DeletionTimestamp)
		}
		return err
	}
	exists := func(name string) {
		env.Eventually(t, soon, func() error {
			_, err := w.Cluster.Client.CoreV1().ConfigMaps("x").Get(t.Context(), name, metav1.GetOptions{})
			return err
		})
	}
	inside := func(space key.Space, name string) {
		w.apply(space, object("Namespace", "", "x", "")+object("ConfigMap", "x", name, "1"))
		exists(name)
	}
	inside(a, "a1") // the agent creates the Namespace for it
	w.apply(a, placement("x", "x"))
	env.Eventually(t, soon, belongs)
	inside(b, "b1")
	w.apply(b, placement("x", "x"))
	env.Throughout(t, 3*time.Second, belongs)
	go w.endNamespaces()
	before, err := w.Cluster.Client.CoreV1().ConfigMaps("x").Get(t.Context(), "b1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.kubectl(a, "delete", "namespace", "x", "--wait=false")
	env.Throughout(t, 5*time.Second, belongs)
	now, err := w.Cluster.Client.CoreV1().ConfigMaps("x").Get(t.Context(), "b1", metav1.GetOptions{})
	if err != nil || now.UID != before.UID || now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the object of the other shard was written: %s %s, was %s %s: %v", now.UID, now.ResourceVersion, before.UID, before.ResourceVersion, err)
	}
	for _, e := range w.Cluster.AllRequests(t, env.Filter{UserAgent: "orrery-agent/", Writes: true, Resource: "namespaces", Name: "x"}) {
		if e.Verb == "delete" && e.Response.Code < 300 {
			t.Errorf("%s %s by %s", e.Verb, e.RequestURI, e.UserAgent)
		}
	}
	w.kubectl(b, "delete", "namespace", "x", "--wait=false")
	env.Eventually(t, goesIn, func() error {
		n, err := w.Cluster.Client.CoreV1().Namespaces().Get(t.Context(), "x", metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("the Namespace exists, with deletionTimestamp %v", n.DeletionTimestamp)
	})
}
