package faults

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/seeds"
	"orrery.dev/orrery/test/support/world"
)

// drawAtSite draws a site and an object, mostly one that the site had before the round. The client
// is nil while the API server of the site hangs.
func (l *life) drawAtSite() (*world.Site, thing, dynamic.ResourceInterface) {
	s, o := l.Sites[pick(l.r, siteNames)], l.draw()
	there := l.before[s.Name]
	if k := pick(l.r, append(slices.Sorted(maps.Keys(there)), "")); k != "" {
		if t, ok := thingOf(there[k]); ok {
			o = t
		}
	}
	if l.hung[s.Name] {
		return s, o, nil
	}
	return s, o, s.Client.Resource(o.atSite()).Namespace(o.namespace)
}

// ours reports whether Orrery manages an object at a site, and the site's API server does not hang.
func (l *life) ours(s *world.Site, o thing) bool {
	_, foreign := l.foreign[s.Name][o.key()]
	return !foreign && !l.hung[s.Name]
}

// tamper changes what Orrery wrote at a site.
func (l *life) tamper() {
	s, o, r := l.drawAtSite()
	if !l.ours(s, o) {
		return
	}
	patch := map[string]string{
		"ConfigMap": `{"data":{"v":"tampered"}}`, "Widget": `{"spec":{"v":"tampered"}}`, "Gadget": `{"spec":{"v":"tampered"}}`,
		"Deployment": `{"spec":{"replicas":1}}`,
	}[o.kind]
	l.edited[o.key()] = true
	_, err := r.Patch(l.t.Context(), o.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "tamperer"})
	l.record("tamper with %s at %s: %v", o.key(), s.Name, err)
}

// steal deletes an object at a site.
func (l *life) steal() {
	s, o, r := l.drawAtSite()
	if !l.ours(s, o) {
		return
	}
	l.moved[o.key()], l.edited[o.key()] = true, true
	err := r.Delete(l.t.Context(), o.name, metav1.DeleteOptions{})
	l.record("steal %s at %s: %v", o.key(), s.Name, err)
}

// strip removes the marks from an object at a site, if it is the one that was there
// before the round: the agent knows that one by its UID. One that it created just before
// it was killed, without a record, is then nobody's.
func (l *life) strip() {
	s, o, r := l.drawAtSite()
	previous := l.before[s.Name][o.key()]
	if previous == nil || !l.ours(s, o) {
		return
	}
	l.edited[o.key()] = true
	patch := pick(l.r, []string{
		`{"metadata":{"uid":%q,"labels":{"orrery.dev/location":null,"orrery.dev/space":null}}}`,
		`{"metadata":{"uid":%q,"annotations":{"orrery.dev/source-name":null,"orrery.dev/source-uid":null}}}`,
	})
	_, err := r.Patch(l.t.Context(), o.name, types.MergePatchType, fmt.Appendf(nil, patch, previous.GetUID()), metav1.PatchOptions{FieldManager: "tamperer"})
	l.record("strip %s at %s: %v", o.key(), s.Name, err)
}

// intrude creates an object at a site that Orrery did not make, which must be left alone
// in all that follows.
func (l *life) intrude() {
	s, o, r := l.drawAtSite()
	if r == nil || o.kind != "ConfigMap" || len(l.foreign[s.Name]) > 3 {
		return
	}
	if l.moved["space|"+o.space] || l.moved["namespace|"+o.space+"|"+o.namespace] {
		return // as documented, a namespace is deleted with objects that are created after the agent has listed it
	}
	u := o.body("", "foreign")
	if l.r.IntN(2) == 0 {
		l.owned(s, u)
	}
	made, err := r.Create(l.t.Context(), u, metav1.CreateOptions{FieldManager: "intruder"})
	l.record("intrude as %s at %s: %v", o.key(), s.Name, err)
	if err == nil {
		l.moved[o.key()] = true
		l.foreign[s.Name][o.key()] = made.GetUID()
	}
}

// stealDefinition deletes a CustomResourceDefinition at a site, and all its objects
// with it.
func (l *life) stealDefinition() {
	s, space := l.Sites[pick(l.r, siteNames)], pick(l.r, spaceNames)
	if l.hung[s.Name] {
		return
	}
	l.moved["definition|"+space] = true
	err := s.Client.Resource(world.CRDs).Delete(l.t.Context(), "widgets."+widgets(space).Group, metav1.DeleteOptions{})
	l.record("steal the definition of %s at %s: %v", space, s.Name, err)
	l.lost(s, widgets(space).Group)
}

// killHub kills the hub in the middle of some edits.
func (l *life) killHub() {
	if !l.Hub.Running() {
		return
	}
	after := time.Duration(l.r.IntN(100)) * time.Millisecond
	timer := time.AfterFunc(after, l.Hub.Kill)
	l.record("kill the hub in %s", after)
	for range 1 + l.r.IntN(8) {
		l.write()
	}
	if timer.Stop() {
		l.Hub.Kill()
	}
	env.Eventually(l.t, soon, func() error {
		if l.Hub.Running() {
			return errRuns
		}
		return nil
	})
}

func (l *life) startHub() {
	if !l.Hub.Running() {
		l.record("start the hub")
		l.Hub.Start()
	}
}

func (l *life) killAgent() {
	s := l.Sites[pick(l.r, siteNames)]
	l.record("kill the agent of %s", s.Name)
	s.Agent.Kill()
}

func (l *life) startAgent() {
	for _, name := range siteNames {
		if a := l.Sites[name].Agent; !a.Running() {
			l.record("start the agent of %s", name)
			a.Start()
		}
	}
}

// breakLink breaks a link, or heals it.
func (l *life) breakLink() {
	s := l.Sites[pick(l.r, siteNames)]
	bytes, latency := int64(l.r.IntN(20_000)), time.Duration(l.r.IntN(100))*time.Millisecond
	faults := []struct {
		name string
		do   func()
	}{
		{"cut", s.Link.Cut}, {"cut up", s.Link.CutUp}, {"cut down", s.Link.CutDown}, {"forget", s.Link.Forget},
		{"heal", s.Link.Heal}, {"slow", func() { s.Link.Slow(latency, 50<<10) }},
		{"drop mid-frame", func() { s.Link.DropMidFrame(bytes + 1) }},
	}
	f := pick(l.r, faults)
	l.record("link of %s: %s", s.Name, f.name)
	f.do()
}

// hangTarget stops an API server as it is; it goes on when all is healed.
func (l *life) hangTarget() {
	s := l.Sites[pick(l.r, siteNames)]
	if l.hung[s.Name] {
		return
	}
	l.record("stop the API server of %s", s.Name)
	s.Cluster.APIServer.Signal(syscall.SIGSTOP)
	l.hung[s.Name] = true
}

// readSite lists the objects of a site, which gives the agents time to make progress.
func (l *life) readSite() {
	if s := l.Sites[pick(l.r, siteNames)]; !l.hung[s.Name] && l.Hub.Running() {
		_, err := s.Marked(l.World)
		l.record("read site %s: %v", s.Name, err)
	}
}

// heal ends all faults.
func (l *life) heal() {
	l.t.Helper()
	for name := range seeds.Ordered(l.hung) {
		l.Sites[name].Cluster.APIServer.Signal(syscall.SIGCONT)
	}
	clear(l.hung)
	for _, s := range seeds.Ordered(l.Sites) {
		s.Link.Heal()
	}
	l.startHub()
	l.startAgent()
	l.settleStrange()
	for _, space := range spaceNames {
		l.restoreSpace(space)
		for _, n := range namespaces(space) {
			l.restoreNamespace(space, n)
		}
	}
}

// restoreNamespace makes a namespace again that was removed, once it is gone.
func (l *life) restoreNamespace(space, name string) {
	l.t.Helper()
	env.Eventually(l.t, soon, func() error {
		var ns *unstructured.Unstructured
		ns, err := l.spaces[space].Resource(world.Namespaces).Get(l.t.Context(), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return l.addNamespace(space, name)
		case err == nil && ns.GetDeletionTimestamp() != nil:
			return errTerminating
		}
		return err
	})
}
