package e2e

import (
	"fmt"
	"strings"

	"orrery.dev/orrery/test/support/env"
)

// summarize creates a Summary of the object vision at the sites of TestRules.
func (w *shop) summarize() {
	w.t.Helper()
	w.apply(`apiVersion: orrery.dev/v1alpha1
kind: Summary
metadata: {name: vision}
spec:
  match: [{resources: [deployments], names: [vision]}]
  groupBy:
  - {name: site, expression: location.name}
  - {name: state, expression: sync.state}
  - {name: registry, expression: "string(location.properties.registry)"}
  combine:
  - {name: objects, type: COUNT}
  - {name: wanted, type: SUM, expression: object.spec.replicas}
`)
}

// sums expects a table of kubectl, line by line.
func (w *shop) sums(lines ...string) {
	w.t.Helper()
	w.Eventually("kubectl get summary shows its rows", func() error {
		var got []string
		out, err := env.TryKubectl(w.t, w.space, "get", "summary", "vision")
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		if want := append([]string{"SITE STATE REGISTRY OBJECTS WANTED"}, lines...); strings.Join(got, "\n") != strings.Join(want, "\n") {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}
