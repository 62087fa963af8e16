package shards

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// podSecurity is a label that only the source of a Namespace has.
const podSecurity = "pod-security.kubernetes.io/enforce"

// TestNamespaceOfOtherShard shows that an object waits for its Namespace while that is desired in another shard, so that
// the Namespace never exists without its labels. Neither does it if the Namespace is deleted in the cluster while the hub
// is stopped and the agent of the object was restarted: the agent of the Namespace creates it again, with its labels.
func TestNamespaceOfOtherShard(t *testing.T) {
	t.Parallel()
	const name = "secured"
	w := newSite(t)
	w.orrery("location", "shards", location, "2")
	first := w.agent("1/2", w.Cluster.AgentKubeconfig)
	second := w.agent("2/2", w.Cluster.AgentKubeconfig)
	w.converged()
	a, b := w.spaceOf(1), w.spaceOf(2)
	bare := w.watchBare(name)
	absent := func() error {
		_, err := w.Cluster.Client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case err == nil:
			return errors.New("the Namespace exists")
		case apierrors.IsNotFound(err):
			return nil
		}
		return err
	}
	isThere := func() error {
		n, err := w.Cluster.Client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && n.Labels[podSecurity] != "restricted" {
			err = fmt.Errorf("the Namespace has the labels %v", n.Labels)
		}
		if err == nil {
			_, err = w.Cluster.Client.CoreV1().ConfigMaps(name).Get(t.Context(), "inside", metav1.GetOptions{})
		}
		return err
	}

	first.Kill()
	w.apply(a, strings.Replace(object("Namespace", "", name, ""), `"metadata":{`, `"metadata":{"labels":{"`+podSecurity+`":"restricted"},`, 1)+placement(name, name))
	w.apply(b, object("Namespace", "", name, "")+object("ConfigMap", name, "inside", "1"))
	env.Eventually(t, soon, func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: w.Root, Args: []string{"status", "--space", string(b), "-o", "json"}}.Try(t)
		if err == nil && !strings.Contains(out, "WaitsForNamespace") {
			err = fmt.Errorf("no object waits for its Namespace: %s", out)
		}
		return err
	})
	env.Throughout(t, 3*time.Second, absent)
	w.again(first, "1/2")
	env.Eventually(t, soon, isThere)

	w.hub.Kill()
	first.Kill()
	second.Kill()
	w.again(second, "2/2")
	go w.endNamespaces()
	if err := w.Cluster.Client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, absent)
	if err := w.Cluster.Client.CoreV1().ConfigMaps(string(b)).Delete(t.Context(), "m", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.converged()                    // the agent acts
	const silence = 30 * time.Second // after that the agent no longer waits for the hub's answer
	env.Throughout(t, silence+5*time.Second, absent)
	w.again(first, "1/2")
	env.Eventually(t, soon, isThere)
	w.hub.Start()
	w.edit("2")
	w.converged()
	if all := bare(); len(all) > 0 {
		t.Errorf("the Namespace was without its labels: %q", all)
	}
}

// watchBare watches a Namespace of the cluster. The result stops the watch and returns the versions of the Namespace
// without the label podSecurity.
func (w *site) watchBare(name string) (stop func() []string) {
	w.t.Helper()
	watch, err := w.Cluster.Client.CoreV1().Namespaces().Watch(w.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan []string, 1)
	var isStopped atomic.Bool
	go func() {
		var bare []string
		versions := 0
		for e := range watch.ResultChan() {
			if _, isStatus := e.Object.(*metav1.Status); isStatus && isStopped.Load() {
				continue // the end of the connection is an error event
			}
			versions++
			if n, ok := e.Object.(*corev1.Namespace); !ok || n.Labels[podSecurity] == "" {
				bare = append(bare, fmt.Sprintf("%s %+v", e.Type, e.Object))
			}
		}
		if versions == 0 {
			bare = append(bare, "the watch has seen nothing")
		}
		done <- bare
	}()
	return func() []string {
		isStopped.Store(true)
		watch.Stop()
		return <-done
	}
}
