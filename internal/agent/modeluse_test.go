package agent

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelUse has a definition recreated, and then removed, while an object of
// it is desired that the cluster refuses. What is not there uses nothing.
func TestModelUse(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		expectSettled := func(what string) {
			t.Helper()
			if err := w.awaitSettled(true); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		const recreate = 24
		widget := identities[7]
		w.edit(widgetsCRD, recreate, 8)
		expectSettled("defined")
		before := w.cluster.objects[widgetsCRD.String()].uid
		w.edit(widget, 7, 7)
		expectSettled("refused")
		w.edit(widgetsCRD, recreate, 1)
		expectSettled("defined otherwise")
		if now := w.cluster.objects[widgetsCRD.String()].uid; now == before {
			t.Error("the definition is the same object")
		}
		w.drop(widgetsCRD, 0, 1)
		expectSettled("not defined any more")
		if w.cluster.objects[widgetsCRD.String()] != nil {
			t.Error("the definition is still there")
		}
	})
}

// TestModelInUse creates an object in a namespace, or of a definition, that is then no longer
// assigned: the namespace or definition stays until the object is deleted, unless that is removed
// with another object in there.
func TestModelInUse(t *testing.T) {
	const ours = "paris.11111111"
	text := func(s string) *string { s = `"` + s + `"`; return &s }
	plain := map[string]*string{fieldPath("data", "v"): text("theirs")}
	copied := map[string]*string{
		fieldPath("metadata", "labels", v1alpha1.LocationLabel):                  text(ours),
		fieldPath("metadata", "labels", v1alpha1.SpaceLabel):                     text("s"),
		fieldPath("metadata", "annotations", v1alpha1.SourceKindAnnotation):      text("Widget"),
		fieldPath("metadata", "annotations", v1alpha1.SourceNamespaceAnnotation): text("b"),
		fieldPath("metadata", "annotations", v1alpha1.SourceNameAnnotation):      text("another"),
		fieldPath("metadata", "annotations", v1alpha1.SourceUIDAnnotation):       text("u"),
	}
	restored := maps.Clone(copied) // marks and all but managed fields
	restored[fieldPath("metadata", "annotations", v1alpha1.SourceNameAnnotation)] = text("w")
	ownedBy := func(kind, name string) ownership.OwnerReference {
		return ownership.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: "uid-none", Controller: true}
	}
	configMap := func(name string) key.Identity {
		id := identities[2]
		id.Name = name
		return id
	}
	for _, c := range []struct {
		name       string
		unassigned key.Identity // what is no longer assigned
		theirs     key.Identity
		fields     map[string]*string
		owner      ownership.OwnerReference
		// of the owner, if it is there
		owns key.Identity
		// removed reports whether the object is removed with its owner, or because the owner is gone.
		removed bool
	}{
		{name: "plain", unassigned: identities[0], theirs: configMap("theirs"), fields: plain},
		{name: "owned by something of the cluster", unassigned: identities[0], theirs: configMap("theirs"), fields: plain, owner: ownedBy("Namespace", "b"), owns: key.Identity{Resource: key.Namespaces, Name: "b"}},
		{name: "owned by what is gone", unassigned: identities[0], theirs: configMap("theirs"), fields: plain, owner: ownedBy("ConfigMap", "none"), removed: true},
		{name: "owned by one of ours inside", unassigned: identities[0], theirs: configMap("theirs"), fields: plain, owner: ownedBy("ConfigMap", "x"), owns: identities[2], removed: true},
		{name: "of the definition", unassigned: widgetsCRD, theirs: identities[7], fields: plain},
		{name: "of the definition, owned", unassigned: widgetsCRD, theirs: identities[7], fields: plain, owner: ownedBy("Namespace", "b"), owns: key.Identity{Resource: key.Namespaces, Name: "b"}},
		{name: "copied labels", unassigned: widgetsCRD, theirs: identities[7], fields: copied},
		{name: "restored", unassigned: widgetsCRD, theirs: identities[7], fields: restored},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, dir)
				defer w.stop(true)
				for _, id := range []key.Identity{identities[0], widgetsCRD, identities[2], identities[4]} {
					w.edit(id, 8, 1)
				}
				<-time.After(20 * time.Second)
				w.onCluster(func(cl *cluster) {
					n := (&thing{id: c.theirs, kind: servedKind(c.theirs.Resource).kind, foreign: true}).edit("kubectl", c.fields)
					if c.owner.Kind != "" {
						n.controlled, n.controller = true, c.owner
					}
					if c.owns.Name != "" {
						n.controller.UID = cl.objects[c.owns.String()].uid
					}
					cl.set(c.theirs.String(), n)
				})
				w.drop(identities[2], 0, 1)
				w.drop(c.unassigned, 0, 1)
				<-time.After(5 * time.Minute)
				if there := w.there(c.unassigned) != ""; there == c.removed {
					t.Fatalf("it is there: %v; %v", there, w.reportsOf())
				}
				w.onCluster(func(cl *cluster) {
					if cl.objects[c.theirs.String()] != nil {
						cl.remove(c.theirs.String())
					}
				})
				<-time.After(3 * time.Minute)
				if w.there(c.unassigned) != "" {
					t.Errorf("it is not used any more, and there; %v", w.reportsOf())
				}
				if len(w.bad) > 0 {
					t.Error(w.bad)
				}
			})
		})
	}
}

// TestModelUseUnknown has kinds in a namespace that the agent may not list, and a CRD
// that serves no version: what may be inside keeps them, and the report says so.
func TestModelUseUnknown(t *testing.T) {
	dir := t.TempDir()
	jobs := identities[6].Resource
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		for _, id := range []key.Identity{identities[0], widgetsCRD} {
			w.edit(id, 8, 1)
		}
		<-time.After(20 * time.Second)
		w.onCluster(func(cl *cluster) {
			cl.closed[jobs] = true
			d := cl.objects[widgetsCRD.String()].copy()
			d.mute = true
			cl.set(widgetsCRD.String(), d)
		})
		for _, id := range []key.Identity{identities[0], widgetsCRD} {
			w.drop(id, 0, 1)
		}
		w.onCluster(func(cl *cluster) { cl.stale = "batch" })
		<-time.After(5 * time.Minute)
		if r := w.reportsOf()["s/"+identities[0].String()]; w.there(identities[0]) == "" || !strings.Contains(r.Message, kubeclient.ErrStale.Error()) {
			t.Errorf("%+v", r)
		}
		w.onCluster(func(cl *cluster) { cl.stale = "" })
		<-time.After(5 * time.Minute)
		for id, message := range map[key.Identity]string{identities[0]: "batch/jobs can't be found out", widgetsCRD: "it serves no version"} {
			if r := w.reportsOf()["s/"+id.String()]; w.there(id) == "" || r.State != wire.Orphaned || r.Reason != "InUse" || !strings.Contains(r.Message, message) {
				t.Errorf("%s: the report is %+v", id, r)
			}
		}
		w.onCluster(func(cl *cluster) {
			cl.closed[jobs] = false
			d := cl.objects[widgetsCRD.String()].copy()
			d.mute = false
			cl.set(widgetsCRD.String(), d)
		})
		<-time.After(16 * time.Minute)
		for _, id := range []key.Identity{identities[0], widgetsCRD} {
			if w.there(id) != "" {
				t.Errorf("%s is there", id)
			}
		}
		if len(w.bad) > 0 {
			t.Error(w.bad)
		}
	})
}

// TestModelUncollected has an object in a namespace whose owner is gone and which nothing
// collects: it counts as a use in the end, and is not reported again and again.
func TestModelUncollected(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		w.edit(identities[0], 8, 1)
		<-time.After(20 * time.Second)
		w.onCluster(func(cl *cluster) {
			cl.littered = true
			n := (&thing{id: identities[3], kind: "ConfigMap", foreign: true, controlled: true}).edit("kubectl", map[string]*string{})
			n.controller = ownership.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "uid-none", Controller: true}
			cl.set(identities[3].String(), n)
		})
		w.drop(identities[0], 0, 1)
		<-time.After(5 * time.Minute)
		before := w.reportsOf()["s/"+identities[0].String()]
		if before.State != wire.Orphaned || before.Reason != "InUse" {
			t.Fatalf("the report is %+v", before)
		}
		<-time.After(20 * time.Minute)
		if now := w.reportsOf()["s/"+identities[0].String()]; now.Since != before.Since {
			t.Errorf("the report was %+v, is %+v", before, now)
		}
	})
}

// TestModelInUseIsQuiet counts the requests for a Namespace that stays, since others have something in it: after the
// first minutes, the agent looks at it every 15 minutes.
func TestModelInUseIsQuiet(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		w.edit(identities[0], 8, 1)
		<-time.After(20 * time.Second)
		w.onCluster(func(cl *cluster) {
			n := (&thing{id: identities[3], kind: "ConfigMap", foreign: true}).edit("kubectl", map[string]*string{})
			cl.set(identities[3].String(), n)
		})
		w.drop(identities[0], 0, 1)
		<-time.After(time.Hour)
		if r := w.reportsOf()["s/"+identities[0].String()]; r.State != wire.Orphaned || r.Reason != v1alpha1.ReasonInUse {
			t.Fatalf("the report is %+v", r)
		}
		count := func() (gets, lists int) {
			w.onCluster(func(cl *cluster) {
				gets = cl.requests[identities[0]]
				for _, n := range cl.lists {
					lists += n
				}
			})
			return gets, lists
		}
		const hours, hourly = 10, 4
		gets, lists := count()
		<-time.After(hours * time.Hour)
		nowGets, nowLists := count()
		t.Logf("in %d hours: %d requests for the Namespace, %d lists", hours, nowGets-gets, nowLists-lists)
		// A look reads the Namespace, discovery by two requests, and lists of kinds until one shows the object.
		if got := nowGets - gets; got < hours*(hourly-1) || got > hours*hourly {
			t.Errorf("%d requests for the Namespace in %d hours, want %d an hour", got, hours, hourly)
		}
		if got := nowLists - lists; got > 2*hours*hourly {
			t.Errorf("%d lists in %d hours, want at most 2 in each of %d looks an hour", got, hours, hourly)
		}
	})
}
