package clients

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// kyvernoEverywhere places a release of Kyverno at all locations: what Helm makes of it, its
// hooks, which have labels alone, and its namespace. Its deletion waits for all of them.
const kyvernoEverywhere = `
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: kyverno}
spec:
  locations: [{selector: {}}]
  waitForRemoval: true
  downsync:
  - helmReleases: [{namespace: kyverno, name: kyverno}]
    followReferences: true
  - resources: [jobs, serviceaccounts, clusterroles, clusterrolebindings, configmaps]
    labelSelectors: [{matchLabels: {app.kubernetes.io/component: hooks}}]
    followReferences: true
  - resources: [namespaces]
    names: [kyverno]
`

// rulesEverywhere places the policies that users write.
const rulesEverywhere = `
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: compliance}
spec:
  locations: [{selector: {}}]
  waitForRemoval: true
  downsync: [{apiGroup: kyverno.io, resources: [clusterpolicies]}]
  upsync: [{apiGroup: wgpolicyk8s.io, resources: [policyreports]}]
`

// TestCompliance takes Kyverno to two clusters by Helm, with its hooks, and back: installed,
// upgraded to two replicas of its controllers, rolled back, uninstalled with nothing left. Helm
// waits for all of it at both. Its policies go there, and what it finds comes back.
func TestCompliance(t *testing.T) {
	w := world.New(t, "--heartbeat=10s", "--disconnected-after=10s") // an agent that ends is missed soon, not after a minute and a half
	s := &space{hub: w.Hub, kubeconfig: w.AddSpace("shop")}
	chart := kyvernoChart(t)
	s.apply(t, kyvernoEverywhere)
	sites := []*world.Site{w.Join("berlin", nil), w.Join("paris", nil)}
	env.Kubectl(t, s.kubeconfig, "create", "namespace", "kyverno")
	wait := []string{"kyverno", chart, "--namespace=kyverno", "--wait", "--timeout=14m"}

	s.timed(t, "install and wait", func() { s.helm(t, append([]string{"install"}, wait...)...) })
	s.ready(t, sites, "1")
	s.apply(t, rulesEverywhere)
	policy(t, s)
	for _, site := range sites {
		w.Eventually("the policy is at "+site.Name, func() error {
			_, err := env.TryKubectl(t, site.Cluster.Kubeconfig, "get", "clusterpolicy", "labels")
			return err
		})
	}
	reported(t, w, s, sites[0], sites[1])
	two := []string{"--set=admissionController.replicas=2", "--set=backgroundController.replicas=2", "--set=cleanupController.replicas=2", "--set=reportsController.replicas=2"}
	s.timed(t, "upgrade and wait", func() { s.helm(t, slices.Concat([]string{"upgrade"}, wait, two)...) })
	s.ready(t, sites, "2")
	s.timed(t, "roll back and wait", func() {
		s.helm(t, "rollback", "kyverno", "1", "--namespace=kyverno", "--wait", "--timeout=14m")
	})
	s.ready(t, sites, "1")
	env.Kubectl(t, s.kubeconfig, "delete", "clusterpolicy,validatingpolicy", "--all")
	s.timed(t, "uninstall and wait", func() { s.helm(t, "uninstall", "kyverno", "--namespace=kyverno", "--wait", "--timeout=14m") })
	// Helm passes over what it has not seen yet when it waits for deletions (Unknown), and may
	// return too early. Until all is gone at the sites, the space has it.
	const clusterScoped = "crds,clusterroles,clusterrolebindings"
	w.Eventually("nothing of it is in the space", func() error {
		out, err := env.TryKubectl(t, s.kubeconfig, "get", clusterScoped, "-o", "name")
		if err != nil {
			return err
		}
		if strings.Contains(out, "kyverno") {
			return fmt.Errorf("there is\n%s", out)
		}
		return nil
	})
	env.Kubectl(t, s.kubeconfig, "delete", "namespace", "kyverno")
	for _, site := range sites {
		if got, want := hooked(t, site), []string{"kyverno-migrate-resources", "kyverno-rm-webhooks", "kyverno-scale-to-zero"}; !slices.Equal(got, want) {
			t.Errorf("at %s the hooks %v ran, want %v", site.Name, got, want)
		}
		left, err := site.Marked(w)
		if err != nil || len(left) > 0 {
			t.Errorf("at %s is left %v: %v", site.Name, left, err)
		}
		if out := env.Kubectl(t, site.Cluster.Kubeconfig, "get", clusterScoped+",namespaces", "-o", "name"); strings.Contains(out, "kyverno") {
			t.Errorf("at %s is left\n%s", site.Name, out)
		}
	}
	if out := env.Orrery(t, w.Root, "status", "--space", "shop"); strings.Contains(out, "kyverno/") {
		t.Errorf("orrery status prints\n%s", out)
	}
}

// hooked are the Jobs that Orrery has made at a site, and that Kubernetes has run.
func hooked(t *testing.T, site *world.Site) (names []string) {
	t.Helper()
	ran := map[string]bool{}
	jobs := env.Filter{Resource: "jobs", Namespace: "kyverno", Writes: true}
	for _, e := range site.Cluster.AllRequests(t, jobs) {
		if e.User.Username != env.AgentUser && e.Object.Subresource == "status" {
			ran[e.Object.Name] = true
		}
	}
	jobs.User, jobs.Verbs = env.AgentUser, []string{"create", "patch"}
	for _, e := range site.Cluster.AllRequests(t, jobs) {
		if ran[e.Object.Name] && !slices.Contains(names, e.Object.Name) {
			names = append(names, e.Object.Name)
		}
	}
	slices.Sort(names)
	return names
}

// ready checks that the space and each cluster have so many Pods ready of each of Kyverno's
// controllers.
func (s *space) ready(t *testing.T, sites []*world.Site, replicas string) {
	t.Helper()
	deployments := func(kubeconfig string) string {
		return env.Kubectl(t, kubeconfig, "-n", "kyverno", "get", "deployments", "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.readyReplicas} {end}`)
	}
	var want strings.Builder
	for _, one := range []string{"admission", "background", "cleanup", "reports"} {
		fmt.Fprintf(&want, "kyverno-%s-controller=%s ", one, replicas)
	}
	for _, site := range sites {
		if got := deployments(site.Cluster.Kubeconfig); got != want.String() {
			t.Errorf("at %s are ready %s, want %s", site.Name, got, &want)
		}
	}
	if got := deployments(s.kubeconfig); got != want.String() {
		t.Errorf("in the space are ready %s, want %s", got, &want)
	}
}
