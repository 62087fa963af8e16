package hub_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
)

// truth is what etcd holds, read without any of the hub's own code.
type truth struct {
	rev     int64
	objects map[string]map[string]any // by key below the prefix
	created map[string]int64
}

func readTruth(t testing.TB, r *running) truth {
	t.Helper()
	var got *clientv3.GetResponse
	if err := tries(func() (err error) {
		got, err = r.Log.Client().Client.Get(t.Context(), etcd.Prefix+"o/", clientv3.WithPrefix())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	out := truth{rev: got.Header.Revision, objects: map[string]map[string]any{}, created: map[string]int64{}}
	for _, kv := range got.Kvs {
		var v map[string]any
		if err := json.Unmarshal(kv.Value, &v); err != nil {
			t.Fatalf("%s: %v", kv.Key, err)
		}
		k := string(kv.Key[len(etcd.Prefix):])
		out.objects[k], out.created[k] = v, kv.CreateRevision
	}
	return out
}

func dig(v map[string]any, path ...string) any {
	for _, p := range path[:len(path)-1] {
		v, _ = v[p].(map[string]any)
	}
	return v[path[len(path)-1]]
}

// below returns the objects below a prefix, by the rest of their keys.
func (tr truth) below(prefix string) map[string]map[string]any {
	out := map[string]map[string]any{}
	for k, v := range tr.objects {
		if rest, ok := strings.CutPrefix(k, prefix); ok {
			out[rest] = v
		}
	}
	return out
}

// placed returns whether the Placements of a space assign a ConfigMap to a location, and whether it is active.
func (tr truth) placed(s key.Space, cm map[string]any, l key.Location) (placed, active bool) {
	where := dig(tr.objects["o/root/orrery.dev/locations/"+string(l)], "metadata", "labels", "where")
	if _, admitted := tr.admitted(s, l); !admitted {
		return false, false
	}
	for _, p := range tr.below("o/" + string(s) + "/orrery.dev/placements/") {
		selector := dig(p, "spec", "locations").([]any)[0].(map[string]any)
		test := dig(p, "spec", "downsync").([]any)[0].(map[string]any)["labelSelectors"].([]any)[0].(map[string]any)
		if dig(selector, "selector", "matchLabels", "where") != where || dig(test, "matchLabels", "what") != dig(cm, "metadata", "labels", "what") {
			continue
		}
		placed = true
		if suspended, _ := dig(p, "spec", "suspend").(bool); !suspended {
			active = true
		}
	}
	return placed, active
}

// admitted reports whether a location admits any object of a space, and its ConfigMaps.
func (tr truth) admitted(s key.Space, l key.Location) (space, configMaps bool) {
	list, ok := dig(tr.objects["o/root/orrery.dev/locations/"+string(l)], "spec", "admit").([]any)
	if !ok {
		return true, true
	}
	for _, entry := range list {
		e := entry.(map[string]any)
		if spaces, ok := e["spaces"].(map[string]any); ok {
			names, byName := spaces["names"].([]any)
			tier, byTier := dig(spaces, "selector", "matchLabels", "tier").(string)
			if byName && !slices.Contains(names, any(string(s))) ||
				byTier && tier != dig(tr.objects["o/root/orrery.dev/spaces/"+string(s)], "metadata", "labels", "tier") {
				continue
			}
		}
		space = true
		if kinds, ok := e["kinds"].([]any); ok && !slices.ContainsFunc(kinds, func(k any) bool { return dig(k.(map[string]any), "apiGroup") == "" }) {
			continue
		}
		if namespaces, ok := e["namespaces"].([]any); !ok || slices.Contains(namespaces, any("default")) {
			return true, true
		}
	}
	return space, false
}

// released are the paths that the Customizers of a space release of a ConfigMap
// at a location.
func (tr truth) released(s key.Space, cm map[string]any, l key.Location) string {
	where := dig(tr.objects["o/root/orrery.dev/locations/"+string(l)], "metadata", "labels", "where")
	paths := map[string]bool{}
	for _, z := range tr.below("o/" + string(s) + "/orrery.dev/customizers/") {
		test := dig(z, "spec", "match").([]any)[0].(map[string]any)["labelSelectors"].([]any)[0].(map[string]any)
		locations, limited := dig(z, "spec", "locations").([]any)
		if limited && dig(locations[0].(map[string]any), "selector", "matchLabels", "where") != where ||
			dig(test, "matchLabels", "what") != dig(cm, "metadata", "labels", "what") {
			continue
		}
		paths[dig(z, "spec", "rules").([]any)[0].(map[string]any)["path"].(string)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(paths)), "\n")
}

// assigned are the ConfigMaps that the placements of their spaces place at a
// location, also those that are held there or another space's is in place of.
func (tr truth) assigned(l key.Location) map[string]bool {
	all := map[string]bool{}
	for _, s := range []key.Space{"s1", "s2"} {
		for name, cm := range tr.below("o/" + string(s) + "/core/configmaps/default/") {
			if placed, _ := tr.placed(s, cm, l); placed {
				all[string(s)+"/core/configmaps/default/"+name] = true
			}
		}
	}
	return all
}

// content is what a location is to have, object by object: JSON without what
// belongs to the center. The elder of two spaces has an identity.
func (tr truth) content(l key.Location) map[string]string {
	out, elder := map[string]string{}, map[string]int64{}
	held := map[string]bool{}
	for _, s := range []key.Space{"s1", "s2"} {
		for name, cm := range tr.below("o/" + string(s) + "/core/configmaps/default/") {
			placed, active := tr.placed(s, cm, l)
			created := tr.created["o/"+string(s)+"/core/configmaps/default/"+name]
			if before, taken := elder[name]; !placed || taken && before < created {
				continue
			}
			elder[name], held[name] = created, !active
			labels := map[string]any{"orrery.dev/space": string(s)}
			if uid, ok := dig(tr.objects["o/root/orrery.dev/locations/"+string(l)], "metadata", "uid").(string); ok {
				labels["orrery.dev/location"] = string(l) + "." + uid[:8]
			}
			if own, ok := dig(cm, "metadata", "labels").(map[string]any); ok {
				maps.Copy(labels, own)
			}
			want := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
				"name": name, "namespace": "default", "labels": labels, "annotations": map[string]any{
					"orrery.dev/source-kind": "ConfigMap", "orrery.dev/source-namespace": "default",
					"orrery.dev/source-name": name, "orrery.dev/source-uid": dig(cm, "metadata", "uid"),
				}}}
			if data, ok := cm["data"].(map[string]any); ok {
				want["data"] = maps.Clone(data) // what is etcd's stays as it is for the next location
			}
			for path := range strings.FieldsSeq(tr.released(s, cm, l)) {
				setSite(want, path, dig(tr.objects["o/root/orrery.dev/locations/"+string(l)], "metadata", "labels", "where").(string))
			}
			text, err := json.Marshal(want)
			if err != nil {
				panic(err)
			}
			out[name] = string(text)
		}
	}
	for name := range held {
		if held[name] {
			delete(out, name)
		}
	}
	return out
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
