package placement

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// counting counts the rows that are read.
type counting struct {
	table.Reader
	rows *int
}

// Ascend implements table.Reader.
func (c counting) Ascend(prefix string, fn func(*table.Row) bool) {
	c.Reader.Ascend(prefix, func(row *table.Row) bool {
		*c.rows++
		return fn(row)
	})
}

// TestExplainedTrailIsBounded: an explanation reads a bounded number of objects, even if all
// objects refer to the referrers.
func TestExplainedTrailIsBounded(t *testing.T) {
	s := &scenarioState{T: t, table: table.New(table.Config{Deriver: New(), WindowSteps: 10, WindowBytes: 1 << 20})}
	s.applyYAML(key.Root, []byte("{kind: Location, metadata: {name: l}}\n"))
	s.applyYAML("s", []byte("{kind: Placement, metadata: {name: p}, spec: {locations: [{names: [l]}], downsync: [{resources: [serviceaccounts], followReferences: true}]}, status: {follows: [{entry: 0, resources: [configmaps]}]}}\n"))
	const accounts = 400 // each is looked for in all of them
	docs := []string{"{kind: Secret, metadata: {namespace: ns, name: a}}\n"}
	for i := range accounts {
		docs = append(docs, fmt.Sprintf("{kind: ServiceAccount, metadata: {namespace: ns, name: a%d}, imagePullSecrets: [{name: a}]}\n", i))
	}
	s.applyYAML("s", []byte(strings.Join(docs, "---\n")))
	secret := key.Object{Space: "s", Identity: key.Identity{Resource: key.Secrets, Namespace: "ns", Name: "a"}}
	rows := 0
	e := Explain(counting{s.table.Snapshot(), &rows}, secret, "l")
	if e.Placed || rows > maxTrail+maxTrail/10 {
		t.Errorf("%d rows are read for %s", rows, e)
	}
	if !strings.Contains(e.String(), "only 100000 objects were looked at") {
		t.Errorf("it does not say that it knows only a part: %s", e)
	}
}
