package write_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// TestPlainIsManaged checks that the managed fields of an object from the fast path equal those of one
// that the library created, after later writes by any manager and method, too.
func TestPlainIsManaged(t *testing.T) {
	h := newHub(t)
	samples := plainSamples(t)
	conflicts, codes := 0, map[int]int{}
	seeds.Check(t, func(t *rapid.T) {
		p := &pair{hub: h, t: t, sample: rapid.SampledFrom(samples).Draw(t, "of")}
		p.create()
		for range rapid.IntRange(1, 5).Draw(t, "writes") {
			a := p.write()
			codes[a.code]++
			if a.code == 409 {
				conflicts++
			}
		}
		p.remove()
	})
	t.Logf("answered %v", codes)
	if conflicts == 0 { // of hundreds of writes, one in ten of which meets a field of another manager
		t.Error("no write had a conflict")
	}
}

// pair are two objects that are alike: that in the space a was created without the library.
type pair struct {
	hub    *hub
	t      *rapid.T
	sample plainSample
	// created is what both were created with, now how they were last answered, by their spaces.
	created plainSample
	now     map[string]object
}

// create creates both, with what is drawn of a sample; with all of it, if that is left to the library.
func (p *pair) create() {
	p.t.Helper()
	p.created = plainSample{p.sample.kind, p.drawn()}
	p.remove() // leftovers of a failed run
	made := p.hub.createPlainly(p.created, "m")
	if made == nil {
		p.created = plainSample{p.sample.kind, p.sample.object}
		if made = p.hub.createPlainly(p.created, "m"); made == nil {
			p.t.Fatalf("%s is left to the library: %v", p.sample.kind.GVK, p.sample.object)
		}
	}
	b := p.hub.do("POST", "b", p.sample.path()+"?fieldManager=m&"+fromLibrary, p.created.object)
	if alike(made) != alike(b.raw) {
		p.t.Fatalf("created\n     %s\nwant %s", made, b.raw)
	}
	p.now = map[string]object{"b": b.body}
	var a object
	if err := json.Unmarshal(made, &a); err != nil {
		p.t.Fatal(err)
	}
	p.now["a"] = a
}

// drawn is an object of which parts are those of the sample, parts are missing, and parts are others.
func (p *pair) drawn() object {
	o := p.variant(p.sample.object).(object)
	m, _ := o["metadata"].(object)
	if m == nil {
		m = object{}
	}
	for _, field := range []string{"labels", "annotations"} {
		if rapid.Bool().Draw(p.t, field) {
			some := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "example.com/c"}), rapid.SampledFrom([]string{"1", "2"}), 0, 3)
			all := object{}
			for k, v := range some.Draw(p.t, field) {
				all[k] = v
			}
			m[field] = all
		}
	}
	if rapid.IntRange(0, 3).Draw(p.t, "held") == 3 {
		m["finalizers"] = rapid.SampledFrom([][]string{{"example.com/a"}, {"example.com/b", "example.com/a"}}).Draw(p.t, "finalizers")
	}
	m["name"] = p.sample.object["metadata"].(object)["name"]
	o["metadata"], o["apiVersion"], o["kind"] = m, p.sample.object["apiVersion"], p.sample.object["kind"]
	return o
}

// variant draws a value that differs from a value of an object.
func (p *pair) variant(v any) any {
	switch v := v.(type) {
	case object:
		some := object{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if rapid.IntRange(0, 4).Draw(p.t, name) < 4 {
				some[name] = p.variant(v[name])
			}
		}
		return some
	case []any:
		var some []any
		for _, e := range v {
			if rapid.IntRange(0, 4).Draw(p.t, "element") < 4 {
				some = append(some, p.variant(e))
			}
		}
		return some
	}
	if rapid.IntRange(0, 5).Draw(p.t, "other") < 5 {
		return v
	}
	switch v := v.(type) {
	case bool:
		return !v
	case float64:
		return v + 1
	case string:
		return v + "x"
	}
	return v
}

// write writes to both in one way, and compares what is answered and stored.
func (p *pair) write() answer {
	p.t.Helper()
	path := p.sample.path() + "/" + p.created.object["metadata"].(object)["name"].(string)
	manager := "?fieldManager=" + rapid.SampledFrom([]string{"m", "n", "o"}).Draw(p.t, "by")
	both := func(query string, body any, content string) answer {
		return p.same(p.hub.do("PATCH", "a", path+query, body, "Content-Type", content), p.hub.do("PATCH", "b", path+query, body, "Content-Type", content))
	}
	switch rapid.SampledFrom([]string{"apply", "apply", "apply", "force", "try", "merge", "strategic", "put", "put", "status"}).Draw(p.t, "how") {
	case "apply":
		return both(manager, p.drawn(), apply)
	case "force":
		return both(manager+"&force=true", p.drawn(), apply)
	case "try":
		return both(manager+"&dryRun=All", p.drawn(), apply)
	case "merge":
		return both(manager, p.patch(), merge)
	case "strategic":
		return both(manager, p.patch(), "application/strategic-merge-patch+json")
	case "status":
		if p.sample.kind.HasStatus {
			return both("/status"+manager, object{"metadata": p.drawn()["metadata"], "status": object{"conditions": []any{object{"type": "A", "status": rapid.SampledFrom([]string{"True", "False"}).Draw(p.t, "status")}}}}, merge)
		}
	}
	return p.put(path, manager)
}

// patch is a merge patch: of what is drawn, some is taken away.
func (p *pair) patch() object {
	o := p.drawn()
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if name != "metadata" && name != "apiVersion" && name != "kind" && rapid.IntRange(0, 3).Draw(p.t, "none of "+name) == 3 {
			o[name] = nil
		}
	}
	return o
}

// put writes both as they were read, with a change, or anew.
func (p *pair) put(path, manager string) answer {
	p.t.Helper()
	o, how := p.drawn(), rapid.SampledFrom([]string{"anew", "read", "disowned"}).Draw(p.t, "put")
	write := func(s string) answer {
		body := maps.Clone(o)
		if how != "anew" {
			m := maps.Clone(p.now[s]["metadata"].(object))
			maps.Copy(m, o["metadata"].(object))
			if how == "disowned" {
				m["managedFields"] = []any{object{}}
			}
			body["metadata"] = m
		}
		return p.hub.do("PUT", s, path+manager, body)
	}
	return p.same(write("a"), write("b"))
}

// same compares the responses, and the stored objects.
func (p *pair) same(a, b answer) answer {
	p.t.Helper()
	// If there are several reasons why a patch can't be merged, the library returns any of them.
	alike := a.code == 500 || normalized(p.t, a.raw) == normalized(p.t, b.raw)
	if a.code != b.code || !alike || fmt.Sprint(a.warnings) != fmt.Sprint(b.warnings) {
		p.t.Fatalf("%s %s, of %v:\n got %d %s %v\nwant %d %s %v", a.method, a.path, p.created.object, a.code, a.raw, a.warnings, b.code, b.raw, b.warnings)
	}
	if a.code == 200 && !strings.Contains(a.path, "dryRun") {
		p.now = map[string]object{"a": a.body, "b": b.body}
	}
	got, want := p.hub.stored(p.created.key("a")), p.hub.stored(p.created.key("b"))
	if normalized(p.t, got) != normalized(p.t, want) {
		p.t.Fatalf("%s %s, of %v: stored is\n     %s\nwant %s", a.method, a.path, p.created.object, got, want)
	}
	return a
}

// remove takes both out of the log, whatever holds them.
func (p *pair) remove() {
	p.t.Helper()
	for _, s := range []key.Space{"a", "b"} {
		if _, err := p.hub.client.Client.Delete(p.hub.ctx, prefix+p.created.key(s)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// unlikeInText is unlike also in JSON that is in a text, as in the message that a patch is not valid.
var unlikeInText = regexp.MustCompile(`((?:uid|resourceVersion|creationTimestamp|time)\\*":\\*")[^"\\]+(\\*")`)

// normalized returns an object without the differences between two equal writes. Managed fields are
// sorted by times in seconds, and the library returns conflicts in any order.
func normalized(t *rapid.T, raw []byte) string {
	t.Helper()
	var o object
	if len(raw) == 0 {
		return ""
	}
	if err := json.Unmarshal(unlikeInText.ReplaceAll(raw, []byte("$1$2")), &o); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	sorted := func(in any, name string, fields ...string) {
		m, _ := in.(object)
		all, _ := m[name].([]any)
		slices.SortStableFunc(all, func(a, b any) int {
			for _, field := range fields {
				if c := cmp.Compare(fmt.Sprint(a.(object)[field]), fmt.Sprint(b.(object)[field])); c != 0 {
					return c
				}
			}
			return 0
		})
	}
	sorted(o["metadata"], "managedFields", "operation", "manager", "subresource", "apiVersion")
	if sorted(o["details"], "causes", "message", "field"); o["reason"] == "Conflict" {
		lines := strings.Split(fmt.Sprint(o["message"]), "\n")
		slices.Sort(lines)
		o["message"] = lines
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
