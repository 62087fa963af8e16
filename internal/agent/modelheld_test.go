package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelHeldNamespace has a Namespace that is held at the location, and an object in it: the Namespace is not made
// for the object, which would leave out its labels. The object waits, and is made with the Namespace.
func TestModelHeldNamespace(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		const held = 9
		namespace, object := identities[0], identities[2]
		w.edit(namespace, 8, held)
		w.edit(object, 8, 1)
		<-time.After(time.Minute)
		if w.there(namespace) != "" || w.there(object) != "" {
			t.Errorf("at the cluster are the Namespace %q and the object %q", w.there(namespace), w.there(object))
		}
		r := w.reportsOf()["s/"+object.String()]
		if r.State != wire.Waiting || r.Reason != v1alpha1.ReasonWaitsForNamespace || !strings.Contains(r.Message, "Namespace "+object.Namespace) {
			t.Errorf("the report of the object is %+v", r)
		}
		w.edit(namespace, 9, 1) // with a label
		<-time.After(5 * time.Second)
		if w.there(namespace) == "" || w.there(object) == "" {
			t.Errorf("at the cluster are the Namespace %q and the object %q; reports %v", w.there(namespace), w.there(object), w.reportsOf())
		}
		if r := w.reportsOf()["s/"+object.String()]; r.State != wire.Applied {
			t.Errorf("the report of the object is %+v", r)
		}
	})
}
