package write_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// between is a log that calls a function once, when armed: after a write has read and validated the
// object, and before its transaction.
type between struct{ armed *atomic.Pointer[func()] }

func (b between) Admit(context.Context, write.Write) (func(error) error, error) {
	if do := b.armed.Swap(nil); do != nil {
		(*do)()
	}
	return func(err error) error { return err }, nil
}

// writer is a way to write an object.
type writer struct {
	name string
	// sets is set if it sets the value by which the object is sliced; rest, if it uses the view of
	// objects without a value.
	sets, rest bool
	do         func(o raced, value string) answer
}

// raced is an object with several writers, and the revision that they have read.
type raced struct {
	name    string
	version any
}

// widgetWriters write widgets, which classes slices by a field, by all paths.
func widgetWriters(h *hub) []writer {
	const v2 = "/apis/example.com/v2/namespaces/default/widgets/"
	set := func(v string) string { return fmt.Sprintf(`{"spec":{"class":%q}}`, v) }
	applied := func(o raced, v string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q},"spec":{"class":%q}}`, o.name, v)
	}
	put := func(o raced, spec object) object {
		w := widget(o.name, spec)
		w["metadata"].(object)["resourceVersion"] = o.version
		return w
	}
	patch := func(root, path, body, kind string) answer {
		return h.do("PATCH", root, path, body, "Content-Type", kind)
	}
	all, rest := viewPath("", "", key.AllSpaces), viewPath("classes", "", key.AllSpaces)
	return []writer{
		{"PUT", true, false, func(o raced, v string) answer {
			return h.do("PUT", "a", widgets+"/"+o.name, put(o, object{"class": v}))
		}},
		{"merge patch", true, false, func(o raced, v string) answer { return patch("a", widgets+"/"+o.name, set(v), merge) }},
		{"JSON patch", true, false, func(o raced, v string) answer {
			return patch("a", widgets+"/"+o.name, fmt.Sprintf(`[{"op":"add","path":"/spec/class","value":%q}]`, v), "application/json-patch+json")
		}},
		{"forced apply", true, false, func(o raced, v string) answer {
			return patch("a", widgets+"/"+o.name+"?fieldManager=m&force=true", applied(o, v), apply)
		}},
		{"other version", true, false, func(o raced, v string) answer { return patch("a", v2+o.name, set(v), merge) }},
		{"export", true, false, func(o raced, v string) answer { return patch(all, wide("a", "widgets", o.name), set(v), merge) }},
		{"export, forced apply", true, false, func(o raced, v string) answer {
			return patch(all, wide("a", "widgets", o.name)+"?fieldManager=n&force=true", applied(o, v), apply)
		}},
		{"export, one space", true, false, func(o raced, v string) answer { return patch(viewPath("", "", "a"), widgets+"/"+o.name, set(v), merge) }},
		{"rest", true, true, func(o raced, v string) answer { return patch(rest, wide("a", "widgets", o.name), set(v), merge) }},

		{"PUT without it", false, false, func(o raced, _ string) answer {
			return h.do("PUT", "a", widgets+"/"+o.name, put(o, object{"replicas": 3}))
		}},
		{"status", false, false, func(o raced, v string) answer {
			return patch("a", widgets+"/"+o.name+"/status", fmt.Sprintf(`{"spec":{"class":%q},"status":{"by":%q}}`, v, v), merge)
		}},
		{"scale", false, false, func(o raced, _ string) answer {
			return patch("a", widgets+"/"+o.name+"/scale", `{"spec":{"replicas":5}}`, merge)
		}},
		{"finalizers", false, false, func(o raced, v string) answer {
			return patch("a", widgets+"/"+o.name, fmt.Sprintf(`{"metadata":{"finalizers":["example.com/%s"]}}`, v), merge)
		}},
		{"rest, something else", false, true, func(o raced, v string) answer {
			return patch(rest, wide("a", "widgets", o.name), fmt.Sprintf(`{"spec":{"size":%q}}`, v), merge)
		}},
		{"rest, status", false, true, func(o raced, v string) answer {
			return patch(rest, wide("a", "widgets", o.name)+"/status", fmt.Sprintf(`{"status":{"by":%q}}`, v), merge)
		}},
	}
}

// configMapWriters write ConfigMaps, which are claimed, and which tiers slices by a label.
func configMapWriters(h *hub) []writer {
	set := func(v string) string { return fmt.Sprintf(`{"metadata":{"labels":{"tier":%q}}}`, v) }
	full := func(o raced, labels object) object { return labeled(configMap(o.name, nil), labels) }
	patch := func(root, path, body, kind string) answer {
		return h.do("PATCH", root, path, body, "Content-Type", kind)
	}
	all, rest := viewPath("", "", key.AllSpaces), viewPath("tiers", "", key.AllSpaces)
	return []writer{
		{"PUT", true, false, func(o raced, v string) answer {
			return h.do("PUT", "a", configMaps+"/"+o.name, full(o, object{"use": "e", "tier": v}))
		}},
		{"merge patch", true, false, func(o raced, v string) answer { return patch("a", configMaps+"/"+o.name, set(v), merge) }},
		{"forced apply", true, false, func(o raced, v string) answer {
			b, _ := json.Marshal(full(o, object{"use": "e", "tier": v}))
			return patch("a", configMaps+"/"+o.name+"?fieldManager=m&force=true", string(b), apply)
		}},
		{"export", true, false, func(o raced, v string) answer { return patch(all, wide("a", "configmaps", o.name), set(v), merge) }},
		{"rest", true, true, func(o raced, v string) answer { return patch(rest, wide("a", "configmaps", o.name), set(v), merge) }},

		{"finalizers", false, false, func(o raced, v string) answer {
			return patch("a", configMaps+"/"+o.name, fmt.Sprintf(`{"metadata":{"finalizers":["example.com/%s"]}}`, v), merge)
		}},
		{"rest, something else", false, true, func(o raced, v string) answer {
			return patch(rest, wide("a", "configmaps", o.name), fmt.Sprintf(`{"data":{"by":%q}}`, v), merge)
		}},
		{"PUT without it", false, false, func(o raced, _ string) answer {
			return h.do("PUT", "a", configMaps+"/"+o.name, labeled(configMap(o.name, object{"by": "PUT"}), object{"use": "e"}))
		}},
	}
}

// races are those of objects of one kind.
type races struct {
	*hub
	keys    string
	create  func(name string) answer
	value   func(stored []byte) string
	writers []writer
	values  [2]string
}

func racesOfWidgets(h *hub) races {
	return races{h, "o/a/example.com/widgets/default/",
		func(name string) answer { return h.do("POST", "a", widgets, widget(name, object{"replicas": 1})) },
		func(stored []byte) string { return textAt(stored, "spec", "class") }, widgetWriters(h), [2]string{"x", "y"}}
}

func racesOfConfigMaps(h *hub) races {
	return races{h, "o/a/core/configmaps/default/",
		func(name string) answer {
			return h.do("POST", "a", configMaps, labeled(configMap(name, nil), object{"use": "e"}))
		},
		func(stored []byte) string { return textAt(stored, "metadata", "labels", "tier") }, configMapWriters(h), [2]string{"gold", "silver"}}
}

func textAt(stored []byte, path ...string) string {
	var o object
	if json.Unmarshal(stored, &o) != nil {
		return ""
	}
	s, _ := answer{body: o}.field(path...).(string)
	return s
}

// history are the values that an object has had since a revision, each once in a row.
func (r races) history(name string, from int64) (all []string) {
	r.t.Helper()
	for rev := from; rev <= r.rev(); rev++ {
		got, err := r.client.Client.Get(r.ctx, prefix+r.keys+name, clientv3.WithRev(rev))
		if err != nil {
			r.t.Fatal(err)
		}
		now := "gone"
		if len(got.Kvs) > 0 {
			now = r.value(got.Kvs[0].Value)
		}
		if len(all) == 0 || all[len(all)-1] != now {
			all = append(all, now)
		}
	}
	return all
}

// TestOneOfTwoWritersSlices runs one write of an object while another one is between its read and its
// transaction. The first value stays, a writer that succeeds has set its own value, and no write by
// the rest of a view changes an object that has got a value meanwhile.
func TestOneOfTwoWritersSlices(t *testing.T) {
	for name, newRaces := range map[string]func(*hub) races{"exported": racesOfWidgets, "claimed": racesOfConfigMaps} {
		t.Run(name, func(t *testing.T) {
			h := newExportHub(t)
			r, armed := newRaces(h), &atomic.Pointer[func()]{}
			h.serve(between{armed})
			for i, first := range r.writers {
				for j, second := range r.writers {
					o := raced{name: fmt.Sprintf("o-%d-%d", i, j)}
					o.version = h.must(201, r.create(o.name)).field("metadata", "resourceVersion")
					from := h.rev()
					var inner answer
					do := func() { inner = second.do(o, r.values[1]) }
					armed.Store(&do)
					outer := first.do(o, r.values[0])
					r.check(fmt.Sprintf("%s, and meanwhile %s", first.name, second.name), first, second, outer, inner, r.history(o.name, from))
				}
			}
		})
	}
}

// check checks the result of two writers, the second of which wrote while the first was about to.
func (r races) check(what string, first, second writer, outer, inner answer, history []string) {
	r.t.Helper()
	want := []string{""}
	switch {
	case second.sets:
		want = append(want, r.values[1])
	case first.sets && outer.code == 200:
		want = append(want, r.values[0])
	}
	if inner.code != 200 || !slices.Equal(history, want) {
		r.t.Errorf("%s: answered %d and then %d: %s; values were %q, want %q", what, inner.code, outer.code, outer.raw, history, want)
	}
	switch refused := outer.code == 409 || outer.code == 422; {
	case second.sets && first.rest:
		if outer.code != 404 {
			r.t.Errorf("%s: what is in a slice was reached: %s", what, outer.raw)
		}
	case second.sets && first.sets && !refused:
		r.t.Errorf("%s: both did it, or: %s", what, outer.raw)
	case !second.sets && outer.code != 200 && !(outer.code == 409 && strings.HasPrefix(first.name, "PUT")):
		r.t.Errorf("%s: %s", what, outer.raw)
	}
}

// TestNoWriteToASuccessor: what is deleted and made anew in another slice, while a write by way
// of the first is about to be done, is not written by that.
func TestNoWriteToASuccessor(t *testing.T) {
	h := newExportHub(t)
	armed := &atomic.Pointer[func()]{}
	h.serve(between{armed})
	x := viewPath("classes", "x", key.AllSpaces)
	for i, w := range []struct {
		code           int
		path           string
		kind, template string
	}{
		{404, "", merge, `{"spec":{"size":"m"}}`},
		{404, "", "application/json-patch+json", `[{"op":"add","path":"/spec/size","value":"m"}]`},
		{404, "/status", merge, `{"status":{"replicas":1}}`},
		{404, "/scale", merge, `{"spec":{"replicas":1}}`},
		{403, "?fieldManager=m&force=true", apply, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME"},"spec":{"size":"m"}}`},
	} {
		name := fmt.Sprint("w-", i)
		h.must(201, h.do("POST", "a", widgets, widget(name, object{"class": "x"})))
		var between [2]answer
		do := func() {
			between[0] = h.do("DELETE", "a", widgets+"/"+name, nil)
			between[1] = h.do("POST", "a", widgets, widget(name, object{"class": "y"}))
		}
		armed.Store(&do)
		h.must(w.code, h.do("PATCH", x, wide("a", "widgets", name)+w.path, strings.ReplaceAll(w.template, "NAME", name), "Content-Type", w.kind))
		h.must(200, between[0])
		h.must(201, between[1])
		if stored := string(h.stored("o/a/example.com/widgets/default/" + name)); strings.Contains(stored, `"size":"m"`) || strings.Contains(stored, "replicas") {
			t.Errorf("%s%s: the successor is %s", w.kind, w.path, stored)
		}
	}
}

// TestManyWriters: of many that write one object at once, by all paths and with different
// values, one decides in which slice it is, and no other value is ever stored.
func TestManyWriters(t *testing.T) {
	for name, newRaces := range map[string]func(*hub) races{"exported": racesOfWidgets, "claimed": racesOfConfigMaps} {
		t.Run(name, func(t *testing.T) {
			h := newExportHub(t)
			r := newRaces(h)
			for round := range 8 {
				o := raced{name: fmt.Sprint("o-", round)}
				o.version = h.must(201, r.create(o.name)).field("metadata", "resourceVersion")
				from := h.rev()
				var mu sync.Mutex
				won := map[string]bool{}
				var all sync.WaitGroup
				for i, w := range r.writers {
					random := seeds.Rand(t, uint64(round*len(r.writers)+i))
					all.Go(func() {
						for range 4 {
							v := r.values[random.IntN(2)]
							if a := w.do(o, v); w.sets && a.code == 200 {
								mu.Lock()
								won[v] = true
								mu.Unlock()
							}
						}
					})
				}
				all.Wait()
				history := r.history(o.name, from)
				if len(won) != 1 || len(history) != 2 || !won[history[1]] {
					t.Errorf("round %d: %v were told that they had set it, values were %q", round, won, history)
				}
			}
		})
	}
}
