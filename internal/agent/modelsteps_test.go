package agent

import (
	"fmt"
	"maps"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// identities are the identities that schedules use.
var identities = []key.Identity{
	{Resource: key.Namespaces, Name: "a"},
	widgetsCRD,
	{Resource: key.NewResource("", "configmaps"), Namespace: "a", Name: "x"},
	{Resource: key.NewResource("", "configmaps"), Namespace: "a", Name: "y"},
	{Resource: key.NewResource("", "configmaps"), Namespace: "b", Name: "x"},
	{Resource: key.NewResource("", "configmaps"), Namespace: "b", Name: "z"},
	{Resource: key.NewResource("batch", "jobs"), Namespace: "a", Name: "j"},
	{Resource: key.NewResource("example.com", "widgets"), Namespace: "b", Name: "w"},
	{Resource: key.NewResource("", "services"), Namespace: "a", Name: "s"},
}

// act does one step.
func (w *world) act(s step) {
	id := w.ids[s.a%len(w.ids)]
	switch n := s.do % 100; {
	case n < 24:
		w.edit(id, s.b, s.c)
	case n < 34:
		w.drop(id, s.b, s.c)
	case n < 54:
		w.tamper(id, s.b, s.c)
	case n < 62:
		w.change(s.b, s.c)
	case n < 68:
		w.disturb(s.b, s.c)
	case n < 70:
		w.fill(s.b%3 > 0)
	case n < 76:
		w.restart(s.b, s.c)
	case n < 84:
		w.relog(s.b, s.c)
	default:
		w.pass(s.b)
	}
}

// pass lets time go by: often too little for anything to be done.
func (w *world) pass(b int) {
	d := []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second, 40 * time.Second}[b%8]
	w.tell("%s pass", d)
	<-time.After(d)
}

// edit has the hub desire an object at the location.
func (w *world) edit(id key.Identity, b, c int) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	space := key.Space("s")
	if b%5 == 0 {
		space = "t"
	}
	k := key.Object{Space: space, Identity: id}.Path()
	if keys := w.spaceKeys(id); len(keys) == 1 {
		k, space = keys[0], key.Space(keys[0][:1])
	}
	content := w.hub.content(w.hub.revision)
	if content[k].Gone != nil {
		return // it is not made again until it is gone
	}
	// The space that has an identity keeps it.
	for _, other := range w.spaceKeys(id) {
		if f, ok := content[other]; ok && other != k && f.Conflict == nil {
			w.tell("conflict %s", k)
			w.hub.write(wire.Frame{Conflict: &wire.Conflict{Key: k, UID: "u-" + string(space), Digest: wire.SumOf([]byte("conflict:" + other)), Owner: other}})
			return
		}
	}
	if c%9 == 0 {
		w.tell("hold %s", k)
		uid := "u-" + string(space)
		if f := content[k]; f.Put != nil {
			uid = f.Put.UID
		}
		w.hub.write(wire.Frame{Hold: &wire.Hold{Key: k, UID: uid, Digest: wire.SumOf([]byte("hold:rule")), Reason: v1alpha1.ReasonSuspended, Error: "rule"}})
		return
	}
	w.put(k, content[k], b, c)
}

func (w *world) put(k string, previous wire.Frame, b, c int) {
	id, err := key.ParsePath(k)
	if err != nil {
		w.t.Fatal(err)
	}
	s := servedKind(id.Resource)
	meta := map[string]any{"name": id.Name}
	if id.Namespace != "" {
		meta["namespace"] = id.Namespace
	}
	if b%3 == 0 {
		meta["labels"] = map[string]any{"l": fmt.Sprint(c % 2)}
	}
	inside := map[string]any{"v": []string{"1", "2", "3", "4", "1", "2", "3", "bad"}[c%8]}
	if b%7 == 0 {
		inside["more"] = "more"
	}
	version := "v1"
	if g := id.APIGroup(); g != "" {
		version = g + "/v1"
	}
	body := map[string]any{"apiVersion": version, "kind": s.kind, "metadata": meta, "data": inside}
	if path, _ := fixedField(id.Resource); b%4 == 0 && path != nil {
		if body[path[0]] == nil {
			body[path[0]] = map[string]any{}
		}
		body[path[0]].(map[string]any)[path[1]] = []string{"one", "two"}[c%2]
	}
	uid := "u-" + k[:1]
	if previous.Put != nil && b%10 > 0 {
		uid = previous.Put.UID
	} else {
		w.seq++
		uid += fmt.Sprint(w.seq)
	}
	var policy wire.Policy
	switch b % 11 {
	case 0:
		policy.CreateOnly = true
	case 1:
		policy.Adopt = true
	case 2:
		policy.Recreate = true
	case 3:
		policy.Orphan = true
	case 4:
		policy.ReportDrift = true
	case 5:
		policy.ReturnStatus = true
	case 6:
		policy.Adopt, policy.CreateOnly = true, true
	}
	policy.Release = []string{"", "", "$.data.v", "$.data.v\n$.data['more']", "$.data.fixed", "$.metadata.labels.l"}[b/11%6]
	w.offer(k, uid, previous, body, policy)
}

// offer makes the hub put an object in the place of the previous frame.
func (w *world) offer(k, uid string, previous wire.Frame, body map[string]any, policy wire.Policy) {
	object := canonical(body)
	p := &wire.Put{Key: k, UID: uid, Generation: w.hub.revision, Digest: wire.SumOf(object), Policy: policy, Object: object}
	p.ReportFirst = reportsFirst(k)
	w.cluster.mu.Lock()
	w.sources[p.Digest] = flatten(body)
	w.allPuts[leafOf(wire.Frame{Put: p})] = p
	w.cluster.mu.Unlock()
	if previous.Put != nil && leafOf(previous) == leafOf(wire.Frame{Put: p}) {
		return
	}
	w.tell("put %s uid %s %s %+v", k, uid, object, policy)
	w.hub.write(wire.Frame{Put: p})
}

// drop has the hub no longer desire an object at the location.
func (w *world) drop(id key.Identity, b, c int) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	content := w.hub.content(w.hub.revision)
	if c%12 == 0 {
		w.dropAll(content, b, c)
		return
	}
	for _, k := range w.spaceKeys(id) {
		if _, ok := content[k]; !ok {
			continue
		}
		cause := []wire.Cause{wire.Deleted, wire.Unassigned}[b%2]
		switch {
		case content[k].Gone != nil:
			continue // that ends when it is gone
		case b%4 == 0 && content[k].Conflict == nil:
			w.leave(k, id, content[k])
			return
		}
		w.tell("del %s (%s)", k, cause)
		w.hub.write(del(k, cause))
		// Another space's object of the identity takes its place.
		for _, other := range w.spaceKeys(id) {
			if f, ok := content[other]; ok && other != k && f.Conflict != nil {
				w.put(other, wire.Frame{}, b, c)
			}
		}
		return
	}
}

// dropAll has the hub no longer desire anything at the location: a Placement
// was deleted, or a space, which may be made again with what was in it.
func (w *world) dropAll(content map[string]wire.Frame, b, c int) {
	cause := []wire.Cause{wire.Unassigned, wire.Deleted, wire.Unassigned}[b%3]
	for _, k := range keysIn(content) {
		w.tell("del %s (%s)", k, cause)
		f := del(k, cause)
		f.Del.Placement = "p"
		w.hub.write(f)
	}
	if b%3 < 2 {
		return
	}
	for _, k := range keysIn(content) {
		if content[k].Conflict == nil {
			w.put(k, wire.Frame{}, b, c)
		}
	}
}

// tamper does something at the cluster.
func (w *world) tamper(id key.Identity, b, c int) {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	cl, k := w.cluster, id.String()
	o := cl.objects[k]
	in := cl.objects[key.Identity{Resource: key.Namespaces, Name: id.Namespace}.String()]
	text := func(s string) *string { s = `"` + s + `"`; return &s }
	field := []string{"v", "v", "v", "more"}[c%4]
	switch {
	case o == nil && !cl.serves(id.Resource), o == nil && id.Namespace != "" && (in == nil || in.terminating):
	case o == nil:
		w.tell("foreign %s", k)
		n := (&thing{id: id, kind: servedKind(id.Resource).kind, foreign: true}).edit("kubectl", map[string]*string{
			fieldPath("data", "v"): text("theirs"), fieldPath("data", "own"): text("theirs"),
		})
		if c%5 == 0 {
			n.fields[fieldPath("metadata", "labels", v1alpha1.LocationLabel)] = `"paris.11111111"` // a copy of our label
		}
		if ours := (owner{"orrery/" + "paris.11111111", "Apply"}); c%6 == 0 { // restored from a backup
			n.owners = map[owner]map[string]bool{ours: maps.Clone(n.owners[owner{"kubectl", "Update"}])}
		} else if c%6 == 1 { // made of a copy
			n.owners[ours] = maps.Clone(n.owners[owner{"kubectl", "Update"}])
		}
		if c%4 == 0 {
			w.own(n, b)
		}
		cl.set(k, n)
	case o.terminating:
	case b%6 == 0 || o.foreign && b%2 == 0:
		w.tell("delete %s at the cluster", k)
		cl.remove(k)
	case o.foreign:
	case (b%6 == 1 || b%6 == 2) && !w.recorded(o): // nothing would prove it to be ours
	case b%6 == 1:
		w.strip(o, fieldPath("metadata", "labels", v1alpha1.LocationLabel))
	case b%6 == 2:
		w.strip(o, fieldPath("metadata", "annotations", v1alpha1.SourceNameAnnotation))
	case b%6 == 3 && id.Resource.Resource == "jobs":
		w.tell("%s completes", k)
		n := o.copy()
		n.status = `{"conditions":[{"type":"Complete","status":"True"}]}`
		cl.set(k, n)
	case b%6 == 3:
		n := o.copy()
		if c%4 == 3 { // it goes and comes at once
			w.tell("no status of %s", k)
			n.status = ""
			cl.set(k, n)
			n = n.copy()
		}
		w.tell("status of %s", k)
		n.status = fmt.Sprintf(`{"observedGeneration":%d,"n":%d,"conditions":[%s]}`, n.generation, c%3, conditions[c%len(conditions)])
		cl.set(k, n)
	case b%6 == 4:
		w.tell("remove %s of %s", field, k)
		cl.set(k, o.edit("kubectl", map[string]*string{fieldPath("data", field): nil}))
	default:
		w.tell("edit %s of %s at the cluster", field, k)
		cl.set(k, o.edit("kubectl", map[string]*string{fieldPath("data", field): text("tampered" + fmt.Sprint(c%3))}))
	}
}

// conditions are possible conditions of a status.
var conditions = []string{``, `{"type":"Reconciling","status":"True","message":"it waits"}`, `{"type":"Stalled","status":"True"}`, `{"type":"Ready","status":"True"}`}

// own makes a controller the creator of an object: for one in its namespace, for a namespace,
// for one in another namespace (which is none), or for one that is gone.
func (w *world) own(o *thing, b int) {
	o.controlled = true
	o.controller = ownership.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "y", UID: "uid-gone", Controller: true}
	owner := key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: o.id.Namespace, Name: "y"}
	switch {
	case o.id.Namespace != "" && b/6%4 == 0:
		owner.Namespace = "b"
		owner.Name, o.controller.Name = "z", "z"
	case o.id.Namespace == "" || b/6%4 == 1:
		owner = key.Identity{Resource: key.Namespaces, Name: "b"}
		o.controller.Kind, o.controller.Name = "Namespace", "b"
	case b/6%4 == 2:
		return
	}
	if x := w.cluster.objects[owner.String()]; x != nil && x.id != o.id {
		o.controller.UID = x.uid
	}
	w.tell("it is owned by %+v", o.controller)
}

// strip takes a mark from an object.
func (w *world) strip(o *thing, mark string) {
	w.tell("strip %s of %s", mark, o.id)
	n := o.edit("kubectl", map[string]*string{mark: nil})
	w.cluster.set(o.id.String(), n)
}

// recorded reports whether the agent has a record with the UID of the object.
func (w *world) recorded(o *thing) bool {
	r := w.recordOf(o.id)
	return r != nil && r.UID == o.uid
}

// recordOf returns the record of an identity in the agent's store.
func (w *world) recordOf(id key.Identity) (r *store.Record) {
	if err := w.agent.store.View(func(x *store.Tx) (err error) {
		r, err = x.Records.Get(id.String())
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// change changes how the hub answers.
func (w *world) change(b, c int) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	m := &w.hub.mood
	switch b % 10 {
	case 0:
		*m = mood{away: true}
	case 1:
		*m = mood{refuse: []int{404, 403, 410, 500, 503}[c%5]}
	case 2:
		*m = mood{empty: true}
	case 3:
		*m = mood{garbage: true}
	case 4:
		*m = mood{cut: 1 + c*3}
	case 5:
		*m = mood{slow: time.Duration(c) * time.Millisecond}
	case 6:
		w.hub.settings.Halt = "paused"
	case 7:
		w.hub.sessions[key.Shard{}]++ // another agent takes over
	default:
		*m = mood{}
		w.hub.settings.Halt = ""
		w.cluster.mu.Lock()
		w.frozen = false
		w.cluster.mu.Unlock()
	}
	w.tell("the hub: %+v, halt %q", *m, w.hub.settings.Halt)
	w.hub.say()
}
