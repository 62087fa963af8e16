package shards

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// TestPurge shows that a purge removes the objects of all shards, and nothing else. The purge does
// not succeed while the agent of one shard hangs: neither if that agent has not started to remove
// objects, nor if it has already reported the remaining ones. A Namespace that others use remains.
func TestPurge(t *testing.T) {
	t.Parallel()
	// The hub has to detect within seconds that an agent hangs.
	w := newSite(t, "--heartbeat", "1s", "--disconnected-after", "3s")
	w.orrery("location", "shards", location, "2")
	w.agent("1/2", w.Cluster.AgentKubeconfig)
	second := w.agent("2/2", w.Cluster.AgentKubeconfig)
	w.converged()
	w.connected("1/2", "2/2")
	for _, namespace := range []string{"default", shared} {
		foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Data: map[string]string{"v": "x"}}
		if _, err := w.Cluster.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waits := func(message string) {
		t.Helper()
		env.Eventually(t, soon, func() error { // the hub may take longer to detect it
			out := env.OrreryFails(t, w.Root, "location", "remove", location, "--purge", "--timeout", "10s")
			if strings.Contains(out, "is gone") {
				t.Fatalf("orrery location remove succeeds while the agent of one shard hangs: %s", out)
			}
			if !strings.Contains(out, message) {
				return fmt.Errorf("while the agent of one shard hangs, orrery location remove prints %s, want %q in it", out, message)
			}
			return nil
		})
		w.orrery("location", "describe", location) // it is not removed
	}

	second.Signal(syscall.SIGSTOP)
	waits("not connected")
	env.Eventually(t, soon, func() error { return w.left(1, false) })
	if err := w.left(2, true); err != nil {
		t.Error(err)
	}

	second.Signal(syscall.SIGCONT)
	env.Eventually(t, soon, func() error { return w.left(2, false) })
	waits("objects left") // terminating Namespaces, which no controller finalizes
	second.Signal(syscall.SIGSTOP)
	go w.endNamespaces()
	env.Eventually(t, soon, w.ended)
	waits("not connected")

	second.Signal(syscall.SIGCONT)
	if out := w.orrery("location", "remove", location, "--purge", "--timeout", soon.String()); !strings.Contains(out, "its cluster keeps 1 objects that others there use: ") || !strings.Contains(out, shared) {
		t.Errorf("orrery location remove prints %s", out)
	}
	env.Throughout(t, 3*time.Second, func() error {
		for _, namespace := range []string{"default", shared} {
			if _, err := w.Cluster.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "theirs", metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return w.marked(shared)
	})
	env.OrreryFails(t, w.Root, "location", "describe", location)
}

// marked returns an error for each object in the cluster with Orrery's ownership metadata, except one
// Namespace.
func (w *site) marked(besides string) error {
	all, err := world.ListAll(w.t.Context(), w.Cluster.Config, "orrery.dev/location")
	for _, o := range all {
		if o.GetKind() != "Namespace" || o.GetName() != besides {
			err = errors.Join(err, fmt.Errorf("%s %s/%s exists", o.GetKind(), o.GetNamespace(), o.GetName()))
		}
	}
	return err
}

// left returns an error unless the ConfigMaps of all spaces of a shard exist, or none does.
func (w *site) left(shard int, there bool) error {
	for _, space := range w.spaces {
		if key.ShardOf(space, 2) != shard {
			continue
		}
		m, err := w.Cluster.Client.CoreV1().ConfigMaps(string(space)).Get(w.t.Context(), "m", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if is := err == nil && m.DeletionTimestamp == nil; is != there {
			return fmt.Errorf("the object of space %s exists: %t", space, is)
		}
	}
	return nil
}

// ended returns an error for each Namespace that is still terminating.
func (w *site) ended() error {
	list, err := w.Cluster.Client.CoreV1().Namespaces().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range list.Items {
		if n.DeletionTimestamp != nil {
			err = errors.Join(err, fmt.Errorf("the namespace %s is terminating", n.Name))
		}
	}
	return err
}

// endNamespaces empties and finalizes terminating Namespaces. The cluster runs no namespace
// controller that would.
func (w *site) endNamespaces() {
	all := w.Cluster.Client.CoreV1().Namespaces()
	for w.t.Context().Err() == nil {
		list, err := all.List(w.t.Context(), metav1.ListOptions{})
		if err == nil {
			for i := range list.Items {
				n := &list.Items[i]
				if n.DeletionTimestamp == nil {
					continue
				}
				inside := w.Cluster.Client.CoreV1().ConfigMaps(n.Name)
				if inside.DeleteCollection(w.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}) == nil {
					n.Spec.Finalizers = nil
					_, _ = all.Finalize(w.t.Context(), n, metav1.UpdateOptions{}) // it is tried again
				}
			}
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-w.t.Context().Done():
		}
	}
}
