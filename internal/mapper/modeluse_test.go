package mapper

import (
	"testing"
	"testing/synctest"
)

// TestModelUse has a definition recreated, and then removed, while an object of
// it is desired that the cluster refuses. What is not there uses nothing.
func TestModelUse(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		settled := func(what string) {
			t.Helper()
			if err := w.settle(true); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		const recreate = 24
		widget := identities[7]
		w.edit(widgetsCRD, recreate, 8)
		settled("defined")
		before := w.cluster.objects[widgetsCRD.String()].uid
		w.edit(widget, 7, 7)
		settled("refused")
		w.edit(widgetsCRD, recreate, 1)
		settled("defined otherwise")
		if now := w.cluster.objects[widgetsCRD.String()].uid; now == before {
			t.Error("the definition is the same object")
		}
		w.drop(widgetsCRD, 0, 1)
		settled("not defined any more")
		if w.cluster.objects[widgetsCRD.String()] != nil {
			t.Error("the definition is still there")
		}
	})
}
