package quota

import (
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// TestLargePolicies: the tests of a policy of 1.2 MB are counted while everything else goes on: other spaces
// are read, and what they hold is known. It is decoded once for each write that is observed.
func TestLargePolicies(t *testing.T) {
	f := newFixture(t)
	f.put(key.Space("b").Key(), `{}`)
	weighed := 0
	f.usage.weigh = func(value []byte) int {
		weighed++
		limit.Returns(t, func() {
			f.usage.InSpace("b")
			if row := f.Snapshot().Get(key.Space("b").Key()); row == nil {
				t.Error("the other space is not there")
			}
		}, "another space is read while a policy is weighed")
		return selectors.TestsIn(value)
	}
	large := withTests(1000, `"names":["`+strings.Repeat("x", 1200<<10)+`"],`)
	if e := f.writes(policy("b", "p"), large, ByDefaults); e != nil {
		t.Fatal(e)
	}
	if weighed != 2 || f.usage.InSpace("b").PolicyTests != 1000 { // before it was written, and observed
		t.Errorf("it was weighed %d times, %d tests are counted", weighed, f.usage.InSpace("b").PolicyTests)
	}
	weighed = 0
	f.put(policy("b", "p"), withTests(7, ""))
	f.put(configMap("other"), object("", 100))
	if weighed != 1 || f.usage.InSpace("b").PolicyTests != 7 {
		t.Errorf("after an update it was weighed %d times, %d tests are counted", weighed, f.usage.InSpace("b").PolicyTests)
	}
	rev := f.Rev() + 1
	if err := f.Apply(rev, []table.Update{{Key: policy("b", "p"), ModRev: rev}}); err != nil {
		t.Fatal(err)
	}
	if weighed != 1 || f.usage.InSpace("b") != (Amount{}) {
		t.Errorf("after its deletion it was weighed %d times, the space holds %+v", weighed, f.usage.InSpace("b"))
	}
}
