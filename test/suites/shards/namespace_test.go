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

// TestNamespaceOfTwoShards: a Namespace that two shards want stays that of the first, also if
// that made it before it was placed, and also once its space has let it go, as long as
// something of the other is inside, which is not written meanwhile. It goes with the last.
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
	has := func(name string) {
		env.Eventually(t, soon, func() error {
			_, err := w.Cluster.Client.CoreV1().ConfigMaps("x").Get(t.Context(), name, metav1.GetOptions{})
			return err
		})
	}
	inside := func(space key.Space, name string) {
		w.apply(space, object("Namespace", "", "x", "")+object("ConfigMap", "x", name, "1"))
		has(name)
	}
	inside(a, "a1") // for which its agent makes the Namespace
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
		t.Errorf("the other shard's object was written: %s %s, was %s %s: %v", now.UID, now.ResourceVersion, before.UID, before.ResourceVersion, err)
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
		return fmt.Errorf("the Namespace is there, deleted at %v", n.DeletionTimestamp)
	})
}
