package clients

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

var policyReports = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}

// results sums up what was found at all locations, by policy and result.
const results = `
apiVersion: orrery.dev/v1alpha1
kind: Summary
metadata: {name: results}
spec:
  from: Upsynced
  match: [{apiGroup: wgpolicyk8s.io, resources: [policyreports]}]
  forEach: object.?results
  groupBy:
  - {name: policy, expression: item.policy}
  - {name: result, expression: item.result}
  combine: [{name: found, type: COUNT}]
`

// finding is a report that Kyverno, which does not run, would make at a cluster of one object, by two
// policies of which the object satisfies the second.
func finding(name, result string) string {
	return fmt.Sprintf(`
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata: {name: %s, namespace: default, labels: {app.kubernetes.io/managed-by: kyverno}}
results: [{policy: labels, rule: labels, result: %s}, {policy: limits, rule: limits, result: pass}]
summary: {%s: 1}
---`, name, result, result)
}

// found are the reports of all locations as a stock informer of their view has them.
type found struct {
	w        *world.World
	s        *space
	informer cache.SharedIndexInformer
}

func newFound(t *testing.T, w *world.World, s *space) *found {
	view := w.Hub.PathConfig("views/reports/spaces/shop/locations/*")
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(view), 0)
	f := &found{w, s, factory.ForResource(policyReports).Informer()}
	stop := start(t, factory.Start)
	t.Cleanup(func() { stop(); factory.Shutdown() })
	return f
}

// is waits until the informer shows exactly some reports, as LOCATION/NAME RESULT, and the
// Summary adds up to rows, of which so many are of locations that are away.
func (f *found) is(t *testing.T, rows string, stale int64, want ...string) {
	t.Helper()
	f.w.Eventually(fmt.Sprintf("%d reports are seen", len(want)), func() error {
		got := []string{}
		for _, o := range f.informer.GetStore().List() {
			u := o.(*unstructured.Unstructured)
			all, _, err := unstructured.NestedSlice(u.Object, "results")
			if err != nil || len(all) != 2 {
				return fmt.Errorf("%v: %w", u.Object, err)
			}
			result := all[0].(map[string]any)["result"]
			got = append(got, fmt.Sprintf("%s/%s %s", u.GetAnnotations()["orrery.dev/location"], u.GetAnnotations()["orrery.dev/source-name"], result))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("they are %q, want %q", got, want)
		}
		var summary struct {
			Status struct {
				Rows  [][]any
				Stale int64
			}
		}
		out, err := env.TryKubectl(t, f.s.kubeconfig, "get", "summary", "results", "-o", "json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(out), &summary); err != nil {
			return err
		}
		if now := summary.Status; fmt.Sprint(now.Rows) != rows || now.Stale != stale {
			return fmt.Errorf("the Summary has %v, %d of it stale, want %s, %d", now.Rows, now.Stale, rows, stale)
		}
		return nil
	})
}

// reported shows that the hub serves the Kyverno reports of two clusters and a Summary of them.
// Reports of a disconnected location are marked as stale; a report that is deleted in its cluster
// disappears from the hub.
func reported(t *testing.T, w *world.World, s *space, berlin, paris *world.Site) {
	t.Helper()
	kubectl := func(site *world.Site, verb string, findings ...string) {
		t.Helper()
		env.KubectlIn(t, site.Cluster.Kubeconfig, strings.Join(findings, ""), verb, "-f", "-")
	}
	s.apply(t, results)
	f := newFound(t, w, s)
	kubectl(berlin, "apply", finding("one", "fail"), finding("two", "pass"))
	kubectl(paris, "apply", finding("one", "pass"))
	f.is(t, "[[labels fail 1] [labels pass 2] [limits pass 3]]", 0, "berlin/one fail", "berlin/two pass", "paris/one pass")

	berlin.Agent.Stop()
	f.is(t, "[[labels fail 1] [labels pass 2] [limits pass 3]]", 2, "berlin/one fail", "berlin/two pass", "paris/one pass")
	view := w.Hub.PathKubeconfig("views/reports/spaces/shop/locations/*")
	w.Eventually("the reports of berlin are marked as stale", func() error {
		all, err := env.TryKubectl(t, view, "get", "policyreports", "-A")
		if err != nil {
			return err
		}
		if strings.Count(all, "Stale") != 2 || strings.Count(all, "Live") != 1 {
			return fmt.Errorf("kubectl shows\n%s", all)
		}
		return nil
	})
	kubectl(berlin, "apply", finding("one", "pass"), finding("three", "fail"))
	kubectl(berlin, "delete", finding("two", "pass"))
	kubectl(paris, "delete", finding("one", "pass"))
	f.is(t, "[[labels fail 1] [labels pass 1] [limits pass 2]]", 2, "berlin/one fail", "berlin/two pass")
	berlin.Agent.Start()
	f.is(t, "[[labels fail 1] [labels pass 1] [limits pass 2]]", 0, "berlin/one pass", "berlin/three fail")
	kubectl(berlin, "delete", finding("one", "pass"), finding("three", "fail"))
	f.is(t, "[]", 0)
}
