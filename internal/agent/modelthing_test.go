package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// thing is an object at the cluster.
type thing struct {
	id          key.Identity
	kind        string
	uid         string
	revision    uint64
	created     uint64
	generation  int64
	terminating bool
	// waits reports whether the object is deleted only after the objects that it owns.
	waits bool
	// mute says of a definition that it serves no version.
	mute bool
	// controlled reports whether a controller created the object for its owner.
	controlled bool
	controller ownership.OwnerReference
	// foreign reports whether the object does not belong to the agent: it was created by another
	// client and not adopted, or was released.
	foreign bool
	// open reports whether requests for whole objects return all of it.
	open   bool
	fields map[string]string // path, segments parted by "/" in places of "\x00", to JSON
	owners map[owner]map[string]bool
	status string
	json   []byte // as it is encoded without its status
}

type owner struct{ manager, operation string }

// copy is a copy to be changed.
func (o *thing) copy() *thing {
	n := *o
	n.fields, n.owners = map[string]string{}, map[owner]map[string]bool{}
	maps.Copy(n.fields, o.fields)
	for m, f := range o.owners {
		n.owners[m] = maps.Clone(f)
	}
	return &n
}

// disown takes fields from all managers but one.
func (o *thing) disown(path string, but owner) {
	for m, f := range o.owners {
		if m != but {
			delete(f, path)
			if len(f) == 0 {
				delete(o.owners, m)
			}
		}
	}
}

func (o *thing) ownedByAny(path string) bool {
	for _, f := range o.owners {
		if f[path] {
			return true
		}
	}
	return false
}

// apply is a server-side apply, forced.
func (o *thing) apply(m owner, fields map[string]string) *thing {
	n := o.copy()
	for path := range n.owners[m] {
		if _, ok := fields[path]; !ok {
			delete(n.owners[m], path)
			if !n.ownedByAny(path) {
				delete(n.fields, path)
			}
		}
	}
	mine := map[string]bool{}
	for path, v := range fields {
		if previous, ok := n.fields[path]; ok && previous != v {
			n.disown(path, m)
		}
		n.fields[path] = v
		mine[path] = true
	}
	n.owners[m] = mine
	if n.content() != o.content() {
		n.generation++
	}
	return n
}

// edit sets fields as an ordinary update does; nil values remove them.
func (o *thing) edit(manager string, fields map[string]*string) *thing {
	n, m := o.copy(), owner{manager, "Update"}
	for path, v := range fields {
		switch previous, ok := n.fields[path]; {
		case v == nil:
			delete(n.fields, path)
			n.disown(path, owner{})
		case !ok || previous != *v:
			n.fields[path] = *v
			n.disown(path, owner{})
			if n.owners[m] == nil {
				n.owners[m] = map[string]bool{}
			}
			n.owners[m][path] = true
		}
	}
	if n.content() != o.content() {
		n.generation++
	}
	return n
}

// content is what is in an object but metadata.
func (o *thing) content() string {
	var all []string
	for path, v := range o.fields {
		if !strings.HasPrefix(path, "metadata/") {
			all = append(all, path+"="+v)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func (o *thing) same(n *thing) bool {
	if !maps.Equal(o.fields, n.fields) || len(o.owners) != len(n.owners) {
		return false
	}
	for m, f := range o.owners {
		if !maps.Equal(f, n.owners[m]) {
			return false
		}
	}
	return true
}

// meta is a value of the object's labels or annotations.
func (o *thing) meta(kind, name string) string {
	var s string
	_ = json.Unmarshal([]byte(o.fields[fieldPath("metadata", kind, name)]), &s)
	return s
}

// encode is the object in JSON, without what an agent never reads.
func (o *thing) encode() []byte {
	version := "v1"
	if g := o.id.APIGroup(); g != "" {
		version = g + "/v1"
	}
	m := ownership.Meta{
		Name: o.id.Name, Namespace: o.id.Namespace, UID: o.uid, ResourceVersion: fmt.Sprint(o.revision), Generation: o.generation,
		Labels: map[string]string{}, Annotations: map[string]string{},
	}
	for p := range o.fields {
		s := strings.Split(p, "/")
		switch {
		case len(s) < 3 || s[0] != "metadata":
		case s[1] == "labels":
			m.Labels[unescape(s[2])] = o.meta("labels", unescape(s[2]))
		case s[1] == "annotations":
			m.Annotations[unescape(s[2])] = o.meta("annotations", unescape(s[2]))
		}
	}
	if o.terminating {
		m.DeletionTimestamp = "2000-01-01T00:00:00Z"
	}
	if o.waits {
		m.Finalizers = []string{metav1.FinalizerDeleteDependents}
	}
	if o.controlled {
		m.OwnerReferences = []ownership.OwnerReference{o.controller}
	}
	for _, k := range slices.SortedFunc(maps.Keys(o.owners), func(a, b owner) int { return strings.Compare(a.manager+a.operation, b.manager+b.operation) }) {
		m.ManagedFields = append(m.ManagedFields, ownership.ManagedFields{
			Manager: k.manager, Operation: k.operation, APIVersion: version, FieldsType: "FieldsV1", FieldsV1: fieldsV1(o.owners[k]),
		})
	}
	all := map[string]any{"kind": o.kind, "metadata": m}
	if o.id == widgetsCRD {
		all["spec"] = map[string]any{"names": map[string]any{"kind": "Widget"}, "versions": []any{map[string]any{"name": "v1", "served": !o.mute}}}
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return b
}

// whole is the object in JSON with all that is inside.
func (o *thing) whole() []byte {
	var whole map[string]any
	if err := json.Unmarshal(o.json, &whole); err != nil {
		panic(err)
	}
	if o.statusJSON() != "" {
		whole["status"] = json.RawMessage(o.statusJSON())
	}
	for p, v := range o.fields {
		segments := strings.Split(p, "/")
		if segments[0] == "metadata" {
			continue
		}
		parent := whole
		for _, s := range segments[:len(segments)-1] {
			next, ok := parent[unescape(s)].(map[string]any)
			if !ok {
				next = map[string]any{}
				parent[unescape(s)] = next
			}
			parent = next
		}
		parent[unescape(segments[len(segments)-1])] = json.RawMessage(v)
	}
	b, err := json.Marshal(whole)
	if err != nil {
		panic(err)
	}
	return b
}

// body is the object in JSON as it is answered.
func (o *thing) body(full bool) []byte {
	switch {
	case full && o.open:
		return o.whole()
	case !full || o.statusJSON() == "":
		return o.json
	}
	return append(append(slices.Clone(o.json[:len(o.json)-1]), `,"status":`...), o.statusJSON()+"}"...)
}

// statusJSON returns the status; a definition is established unless a status was set.
func (o *thing) statusJSON() string {
	if o.status == "" && o.id == widgetsCRD {
		return `{"conditions":[{"type":"Established","status":"True"}]}`
	}
	return o.status
}

func fieldsV1(paths map[string]bool) json.RawMessage {
	tree := map[string]any{}
	for p := range paths {
		node := tree
		for s := range strings.SplitSeq(p, "/") {
			s = "f:" + unescape(s)
			next, ok := node[s].(map[string]any)
			if !ok {
				next = map[string]any{}
				node[s] = next
			}
			node = next
		}
	}
	b, err := json.Marshal(tree)
	if err != nil {
		panic(err)
	}
	return b
}

// pathsOf is the inverse of fieldsV1.
func pathsOf(fields json.RawMessage) map[string]bool {
	var tree map[string]any
	if err := json.Unmarshal(fields, &tree); err != nil {
		panic(err)
	}
	paths := map[string]bool{}
	var walk func(path []string, tree map[string]any)
	walk = func(path []string, tree map[string]any) {
		for s, next := range tree {
			in := append(slices.Clone(path), strings.TrimPrefix(s, "f:"))
			if next := next.(map[string]any); len(next) > 0 {
				walk(in, next)
			} else {
				paths[fieldPath(in...)] = true
			}
		}
	}
	walk(nil, tree)
	return paths
}

func fieldPath(segments ...string) string {
	for i, s := range segments {
		segments[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
	}
	return strings.Join(segments, "/")
}

func unescape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}

// flatten makes fields of a body, without what names the object; a map without
// fields is none.
func flatten(body map[string]any) map[string]string {
	fields := map[string]string{}
	var walk func(path []string, v any)
	walk = func(path []string, v any) {
		if m, ok := v.(map[string]any); ok {
			for k, v := range m {
				walk(append(slices.Clone(path), k), v)
			}
			return
		}
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		fields[fieldPath(path...)] = string(b)
	}
	for k, v := range body {
		if k == "metadata" {
			for kind, v := range v.(map[string]any) {
				if kind == "labels" || kind == "annotations" {
					walk([]string{k, kind}, v)
				}
			}
		} else if k != "apiVersion" && k != "kind" {
			walk([]string{k}, v)
		}
	}
	return fields
}
