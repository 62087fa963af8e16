package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// brokenStatus is that of a Deployment with one of three Pods.
const brokenStatus = `{"status":{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":1,"availableReplicas":1,"unavailableReplicas":2,
	"conditions":[{"type":"Available","status":"False","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z"}]}}`

// TestPaused shows that a paused location goes on reporting what is at its cluster: Pods that fail, an
// object that was deleted, one that was changed, and a change in the space that waits. Nothing is
// changed at the cluster, also by an agent that starts meanwhile, and after the pause everything is.
func TestPaused(t *testing.T) {
	t.Parallel()
	w := world.New(t, "--heartbeat", heartbeat.String())
	u := &unseen{edge: edgeOf(t, w, env.StartLink(t, w.Hub.URL)), kubeconfig: w.Hub.PathKubeconfig("spaces/" + spaceName),
		reports: w.Hub.PathKubeconfig("views/reports/spaces/" + spaceName + "/locations/edge")}
	u.place()
	u.shows("before", true)

	env.Orrery(t, u.Root, "location", "pause", "edge")
	u.reported("web", "Applied")
	deployments, all := u.Client.Resource(world.Deployments).Namespace(namespace), u.Client.Resource(gizmos).Namespace(namespace)
	patch := func(change, name string) {
		t.Helper()
		if _, err := all.Patch(t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := deployments.Patch(t.Context(), "web", types.MergePatchType, []byte(brokenStatus), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if err := all.Delete(t.Context(), "lamp", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patch(`{"spec":{"size":2}}`, "plain")
	seen := func(when string) {
		t.Helper()
		u.Eventually(when+": the status of web comes back", func() error {
			if ready := env.Kubectl(t, u.kubeconfig, "get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"); ready != "1" {
				return fmt.Errorf("%q replicas are ready", ready)
			}
			return nil
		})
		u.reported("lamp", "Waiting", "missing")
		u.reported("plain", "Waiting", "differs")
		u.Eventually(when+": the status of lamp does not come back", func() error {
			if status := env.Kubectl(t, u.kubeconfig, "get", "gizmo", "lamp", "-o", "jsonpath={.status}"); strings.Contains(status, `"Ready"`) && !strings.Contains(status, `"Reconciling"`) {
				return errors.New(status)
			}
			return nil
		})
	}
	seen("paused")
	u.Agent.Kill()
	u.Agent.Start()
	seen("after a restart of the agent")
	env.Kubectl(t, u.kubeconfig, "delete", "gizmo", "plain", "--wait=false")
	u.reported("plain", "Removing", "until the halt ends")
	env.Kubectl(t, u.kubeconfig, "set", "image", "deployment/web", "web=example.org/web:2")
	u.reported("web", "Waiting", "differs")

	if _, err := all.Get(t.Context(), "lamp", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("lamp was made again while the location is paused: %v", err)
	}
	if plain, err := all.Get(t.Context(), "plain", metav1.GetOptions{}); err != nil || fmt.Sprint(plain.Object["spec"]) != "map[size:2]" {
		t.Errorf("plain was changed or removed while the location is paused: %v, %v", plain, err)
	}
	if image := env.Kubectl(t, u.Cluster.Kubeconfig, "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"); image != "example.org/web:1" {
		t.Errorf("web was changed while the location is paused: %s", image)
	}

	env.Orrery(t, u.Root, "location", "resume", "edge")
	for _, name := range []string{"web", "lamp"} {
		u.reported(name, "Applied")
	}
	u.Eventually("plain is removed", func() error {
		_, err := all.Get(t.Context(), "plain", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is there")
	})
}

// reported waits until the row of an object in the output of orrery status contains each of the words.
func (u *unseen) reported(name string, words ...string) {
	u.t.Helper()
	u.Eventually(fmt.Sprintf("%s is reported as %s", name, words), func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: u.kubeconfig, Args: []string{"status"}}.Try(u.t)
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			missing := false
			for _, word := range append(words, name) {
				missing = missing || !strings.Contains(line, word)
			}
			if !missing {
				return nil
			}
		}
		return errors.New(out)
	})
}
