package render

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// world is a table whose objects are placed and rendered by the real rules.
type world struct {
	t     testing.TB
	table *table.Writer
	rev   int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ruling, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	engine := placement.New()
	engine.Rules = RulesOf(ruling)
	return &world{t: t, table: table.New(table.Config{Deriver: engine, WindowSteps: 100, WindowBytes: 1 << 20})}
}

func (w *world) write(space key.Space, group, resource, namespace, name, value string) {
	w.t.Helper()
	w.rev++
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.NewResource(group, resource), Namespace: namespace, Name: name}}
	if err := w.table.Apply(w.rev, []table.Update{{Key: o.Key(), Value: []byte(value), CreateRev: 1, ModRev: w.rev}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) classes(o key.Object) (classes []*placement.Class) {
	row, _ := w.table.Get(o.Key())
	for _, p := range row.In.(*placement.Membership).Places() {
		classes = append(classes, p.Class)
	}
	return classes
}

// A change of a ConfigMap is another class where its rules use what has changed, and
// nothing at all anywhere else.
func TestDataIsPinnedInClasses(t *testing.T) {
	w := newWorld(t)
	for _, l := range []string{"a", "b"} {
		w.write(key.Root, "orrery.dev", "locations", "", l, `{"metadata":{"uid":"`+l+`"}}`)
	}
	w.write("s", "orrery.dev", "placements", "", "p", `{"metadata":{},"spec":{"locations":[{"selector":{}}],"downsync":[{"names":["x"]}]}}`)
	w.write("s", "orrery.dev", "customizers", "", "c", `{"metadata":{},"spec":{"match":[{"names":["x"]}],
		"data":[{"name":"s","configMap":{"namespace":"n","name":"sites"}}],
		"rules":[{"path":"$.data.x","expression":"data.s[location.name] + data.s.mode"}]}}`)
	x := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: "x"}}
	w.write("s", "", "configmaps", "n", "x", `{"metadata":{"uid":"x"}}`)
	sites := func(data string) []*placement.Class {
		t.Helper()
		w.write("s", "", "configmaps", "n", "sites", `{"metadata":{"uid":"y"},"data":`+data+`}`)
		return w.classes(x)
	}
	first := sites(`{"a":"A","b":"B","mode":"m","other":"o"}`)
	for what, c := range map[string]struct {
		data string
		same [2]bool
	}{
		"the same":        {`{"a":"A","b":"B","mode":"m","other":"o"}`, [2]bool{true, true}},
		"another order":   {`{"b":"B", "a":"A", "other":"o","mode":"m"}`, [2]bool{true, true}},
		"what is unused":  {`{"a":"A","b":"B","mode":"m","other":"p","c":"C"}`, [2]bool{true, true}},
		"that of b":       {`{"a":"A","b":"C","mode":"m","other":"o"}`, [2]bool{true, false}},
		"what all use":    {`{"a":"A","b":"B","mode":"n","other":"o"}`, [2]bool{false, false}},
		"a is not there":  {`{"b":"B","mode":"m","other":"o"}`, [2]bool{false, true}},
		"nothing is":      {`{}`, [2]bool{false, false}},
		"nothing is said": {`null`, [2]bool{false, false}},
	} {
		if now := sites(c.data); [2]bool{now[0] == first[0], now[1] == first[1]} != c.same {
			t.Errorf("%s: the classes are the same: %v, want %v: %s", what, [2]bool{now[0] == first[0], now[1] == first[1]}, c.same, now)
		}
		if again := sites(`{"a":"A","b":"B","mode":"m","other":"o"}`); again[0] != first[0] || again[1] != first[1] {
			t.Errorf("after %s, the classes are not what they were", what)
		}
	}
	// Nor is a ConfigMap of the same name elsewhere of interest.
	w.write("t", "", "configmaps", "n", "sites", `{"metadata":{},"data":{"a":"X"}}`)
	w.write("s", "", "configmaps", "m", "sites", `{"metadata":{},"data":{"a":"X"}}`)
	w.write("s", "", "secrets", "n", "sites", `{"metadata":{},"data":{"a":"X"}}`)
	if now := w.classes(x); now[0] != first[0] || now[1] != first[1] {
		t.Error("a ConfigMap elsewhere makes a difference")
	}
}

// BenchmarkConfigMapOfAll is a change of one text, for one of 1,000 locations, in a ConfigMap that
// as many Customizers use as a space may have.
func BenchmarkConfigMapOfAll(b *testing.B) {
	const locations, customizers = 1000, 32
	w := newWorld(b)
	for i := range locations {
		w.write(key.Root, "orrery.dev", "locations", "", fmt.Sprintf("l%04d", i), fmt.Sprintf(`{"metadata":{"uid":"%d"},"spec":{"properties":{"registry":"r%d.example","replicas":3}}}`, i, i))
	}
	write := func(changed int) {
		texts := make([]string, locations)
		for i := range texts {
			texts[i] = fmt.Sprintf(`"l%04d":"%d %s"`, i, i, strings.Repeat("x", 900))
		}
		texts[7] = fmt.Sprintf(`"l0007":"%d"`, changed)
		w.write("s", "", "configmaps", "n", "sites", `{"metadata":{"uid":"y"},"data":{`+strings.Join(texts, ",")+`}}`)
	}
	write(0)
	for i := range customizers {
		w.write("s", "orrery.dev", "customizers", "", fmt.Sprintf("c%d", i), fmt.Sprintf(`{"metadata":{},"spec":{"match":[{"names":["x"]}],
			"data":[{"name":"d%d","configMap":{"namespace":"n","name":"sites"}}],"rules":[{"path":"$.data.x%d","expression":"data.d%d[location.name]"}]}}`, i, i, i))
	}
	i := 0
	for b.Loop() {
		i++
		write(i)
	}
}
