package placement

import (
	"context"
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
	// onRow is called for each row.
	onRow func()
}

// Ascend implements table.Reader.
func (c counting) Ascend(prefix string, fn func(*table.Row) bool) {
	c.Reader.Ascend(prefix, func(row *table.Row) bool {
		*c.rows++
		c.onRow()
		return fn(row)
	})
}

// newTrail makes a state with a Secret to which many ServiceAccounts refer, and with Placements that have references
// followed. The account of each is looked for in all of them.
func newTrail(t *testing.T, placements int) (*scenarioState, key.Object) {
	t.Helper()
	s := &scenarioState{T: t, table: table.New(table.Config{Deriver: New(), WindowSteps: 10, WindowBytes: 1 << 20})}
	s.applyYAML(key.Root, []byte("{kind: Location, metadata: {name: l}}\n"))
	for i := range placements {
		s.applyYAML("s", fmt.Appendf(nil, "{kind: Placement, metadata: {name: p%d}, spec: {locations: [{names: [l]}], downsync: [{resources: [serviceaccounts], followReferences: true}]}, status: {follows: [{entry: 0, resources: [configmaps]}]}}\n", i))
	}
	const accounts = 400
	docs := []string{"{kind: Secret, metadata: {namespace: ns, name: a}}\n"}
	for i := range accounts {
		docs = append(docs, fmt.Sprintf("{kind: ServiceAccount, metadata: {namespace: ns, name: a%d}, imagePullSecrets: [{name: a}]}\n", i))
	}
	s.applyYAML("s", []byte(strings.Join(docs, "---\n")))
	return s, key.Object{Space: "s", Identity: key.Identity{Resource: key.Secrets, Namespace: "ns", Name: "a"}}
}

// TestExplainedTrailIsBounded: an explanation reads a bounded number of objects, even if all
// objects refer to the referrers.
func TestExplainedTrailIsBounded(t *testing.T) {
	s, secret := newTrail(t, 1)
	rows := 0
	e := Explain(t.Context(), counting{s.table.Snapshot(), &rows, func() {}}, secret, "l")
	if e.Placed || rows > maxTrail+maxTrail/10 {
		t.Errorf("%d rows are read for %s", rows, e)
	}
	if !strings.Contains(e.String(), "only 100000 objects were looked at") {
		t.Errorf("it does not say that it knows only a part: %s", e)
	}
}

// TestExplanationIsBounded: an explanation reads a bounded number of objects for all Placements together, and names how
// many Placements it has not evaluated. It ends with its context.
func TestExplanationIsBounded(t *testing.T) {
	const placements = 6
	s, secret := newTrail(t, placements)
	rows := 0
	e := Explain(t.Context(), counting{s.table.Snapshot(), &rows, func() {}}, secret, "l")
	if rows > maxExplained+maxExplained/10 {
		t.Errorf("%d rows are read", rows)
	}
	if n := len(e.Placements); n == 0 || e.OmittedPlacements == 0 || n+e.OmittedPlacements != placements ||
		!strings.Contains(e.String(), fmt.Sprintf("and %d more Placements, which were not evaluated", e.OmittedPlacements)) {
		t.Errorf("%d Placements are explained, and %d omitted: %s", n, e.OmittedPlacements, e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	rows = 0
	Explain(ctx, counting{s.table.Snapshot(), &rows, func() {
		if rows == 100 {
			cancel()
		}
	}}, secret, "l")
	if rows > 1000 {
		t.Errorf("%d rows are read after the context had ended", rows)
	}
}
