package fields

import (
	"slices"
	"testing"

	"orrery.dev/orrery/internal/protocol/ownership"
)

// TestUnowned shows which values an apply may remove: no field manager owns them, and the source does
// not write them, though it writes what they are in.
func TestUnowned(t *testing.T) {
	there := &ownership.Answer{JSON: `{"metadata":{"labels":{"l":"1"}},"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}},` +
		`"owned":{"a":1},"whole":{"a":1},"part":{"a":{"b":1}},"replicas":1,"written":1,"other":{"a":1}},"status":{"n":1}}`}
	there.Metadata.ManagedFields = []ownership.ManagedFields{
		entryOf(leased.Manager(), "Apply", `{"f:spec":{"f:owned":{"f:a":{}},"f:whole":{},"f:strategy":{"f:type":{}}}}`),
		entryOf("kubectl", "Update", `{"f:spec":{"f:part":{"f:a":{"f:b":{}}}}}`),
	}
	const source = `{"metadata":{},"spec":{"strategy":{"type":"Recreate"},"owned":{},"whole":{},"written":2},"status":{}}`
	for path, want := range map[string]bool{
		"spec.strategy.rollingUpdate": true, "spec.replicas": true, "spec.strategy.rollingUpdate.maxSurge": false,
		"spec.strategy.type": false, "spec.owned.a": false, "spec.whole.a": false, "spec.part.a": false, "spec.part": false, "spec.written": false, "spec.other.a": false,
		"spec.missing": false, "spec.list[0].a": false, "metadata.labels": false, "status.n": false, "spec": false, "": false, "spec.*": false, "spec.#": false,
	} {
		got, err := Unowned([]string{path, path}, []byte(source), there)
		if err != nil || slices.Contains(got, path) != want || len(got) > 1 {
			t.Errorf("%q: %q, %v; want %t", path, got, err, want)
		}
	}
	entries, ok, err := Claim([]string{"spec.strategy.rollingUpdate", "spec.replicas"}, there, leased.Manager())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	checkOwners(t, entries, `{"f:spec":{"f:owned":{"f:a":{}},"f:whole":{},"f:replicas":{},"f:strategy":{"f:type":{},"f:rollingUpdate":{"f:maxSurge":{}}}}}`, `{}`)
	if _, ok, err := Claim(nil, there, "another"); ok || err != nil {
		t.Errorf("for a manager that has applied nothing: %t, %v", ok, err)
	}
}
