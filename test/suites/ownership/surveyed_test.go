package ownership

import (
	"fmt"
	"os"
	"path/filepath"
)

// surveyed: an agent that has lost its store finds all that it created, also the only
// object of a kind that neither desired content nor reports name. It removes what the
// hub's log proves, and leaves what names no place in that log.
func (s *suite) surveyed() {
	s.namespace("surveyed")
	s.place("surveyed", "", "")
	s.write(configMap("surveyed", "kept", "one"))
	s.hasField("surveyed", "cm/kept", ".data.v", "one")
	mark := func(path string) string {
		return s.there("-n", "surveyed", "get", "cm", "kept", "-o", "jsonpath={.metadata."+path+"}")
	}
	log, label := mark(`annotations.orrery\.dev/log`), mark(`labels.orrery\.dev/location`)

	s.site.Agent.Kill()
	for name, position := range map[string]string{"forgotten": log, "unknown": "ANOTHERHUBSMARKER.7"} {
		s.thereIn(fmt.Sprintf(`
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: %[1]s
  namespace: surveyed
  labels: {orrery.dev/location: %[2]s, orrery.dev/space: %[3]s}
  annotations:
    orrery.dev/source-kind: PodDisruptionBudget
    orrery.dev/source-namespace: surveyed
    orrery.dev/source-name: %[1]s
    orrery.dev/source-uid: 6d1f6b5c-0000-0000-0000-000000000000
    orrery.dev/log: %[4]s
spec: {minAvailable: 1, selector: {matchLabels: {app: any}}}
`, name, label, space, position), "apply", "--server-side", "--field-manager", "orrery/"+label, "-f", "-")
	}
	for _, file := range []string{"agent.db", "status.json"} {
		if err := os.Remove(filepath.Join(s.site.Agent.Dir, file)); err != nil {
			s.Fatal(err)
		}
	}
	s.site.Agent.Start()
	s.gone("surveyed", "pdb/forgotten")
	s.hasField("surveyed", "pdb/unknown", ".spec.minAvailable", "1")
	s.hasField("surveyed", "cm/kept", ".data.v", "one")

	s.there("-n", "surveyed", "delete", "pdb", "unknown")
	s.unplace("surveyed")
	s.gone("surveyed", "cm/kept")
}
