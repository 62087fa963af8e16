package preview

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/scenario"
)

// TestScenarios runs testdata/*.txtar. The files of an archive are steps:
//
//	apply SPACE            YAML objects
//	dry-run SPACE          a Placement or Customizer whose write is previewed
//	dry-delete SPACE KIND NAME
//	preview [lists RESOURCE...]
//	                       the expected preview, for a reader that may list
//	                       these resources only, and get RESOURCE/NAME
//
// The preview for a reader that may list everything is compared with the result of the write.
func TestScenarios(t *testing.T) {
	builtin, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	scenario.Run(t, func(t *testing.T) scenario.Step { return newWorld(t, builtin).step })
}

// world is a hub's state, as far as it matters here.
type world struct {
	*testing.T
	*Previewer
	table *table.Writer
	rev   int64
	// lists are the resources that the reader may list; nil: all.
	lists []string
	// policy and value are what is supposed.
	policy key.Object
	value  []byte
}

func newWorld(t *testing.T, builtin *registry.Registry) *world {
	t.Helper()
	ruling, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t}
	engine, renderer := placement.New(), render.New(builtin.Builtin(key.Root))
	engine.Rules, renderer.Follow = render.RulesOf(ruling), render.Customizing(ruling)
	w.table = table.New(table.Config{Deriver: engine, WindowSteps: 10, WindowBytes: 1 << 20})
	w.Previewer = New(Config{Table: w.table.Table, Renderer: renderer, Compilers: engine.Compilers, May: w.may, Now: func() time.Time { return time.Time{} }})
	return w
}

func (w *world) may(_ context.Context, verb string, o key.Object) bool {
	if verb != "list" || o.Name != "" {
		return w.lists == nil || verb == "get" && slices.Contains(w.lists, o.Resource.Resource+"/"+o.Name)
	}
	return w.lists == nil || slices.Contains(w.lists, o.Resource.Resource)
}

func (w *world) step(words []string, data []byte) (result string, expects bool) {
	words = append(words, "", "")
	switch words[0] {
	case "apply":
		w.apply(key.Space(words[1]), data)
		return "", false
	case "dry-run":
		for u := range w.updates(key.Space(words[1]), data) {
			w.policy, w.value = u.object, u.Value
		}
		return "", false
	case "dry-delete":
		w.policy, w.value = key.Object{Space: key.Space(words[1]), Identity: key.Identity{Resource: resources[words[2]], Name: words[3]}}, nil
		return "", false
	case "preview":
	default:
		w.Fatalf("unknown step %q", words)
	}
	w.lists = nil
	if words[1] == "lists" {
		w.lists = words[2:]
	}
	result = strings.Join(append(w.Tell(w.Context(), w.policy, w.value), ""), "\n")
	if w.lists == nil {
		w.happens()
	}
	return result, true
}

var resources = map[string]key.Resource{
	"ConfigMap":  {Group: "core", Resource: "configmaps"},
	"Secret":     {Group: "core", Resource: "secrets"},
	"Deployment": {Group: "apps", Resource: "deployments"},
	"Location":   key.Locations,
	"Space":      key.Spaces,
	"Placement":  key.Placements,
	"Customizer": key.Customizers,
}

type written struct {
	table.Update
	object key.Object
}

// updates are the writes of objects at the next revision.
func (w *world) updates(space key.Space, data []byte) func(func(written) bool) {
	return func(yield func(written) bool) {
		for doc := range bytes.SplitSeq(data, []byte("---\n")) {
			var all map[string]any
			if err := yaml.Unmarshal(doc, &all); err != nil {
				w.Fatal(err)
			}
			metadata := all["metadata"].(map[string]any)
			namespace, _ := metadata["namespace"].(string)
			r, ok := resources[all["kind"].(string)]
			if !ok {
				w.Fatalf("unknown kind %v", all["kind"])
			}
			o := key.Object{Space: space, Identity: key.Identity{Resource: r, Namespace: namespace, Name: metadata["name"].(string)}}
			u := table.Update{Key: o.Key(), CreateRev: w.rev + 1, ModRev: w.rev + 1}
			metadata["uid"] = o.Path()
			if row, _ := w.table.Get(u.Key); row != nil {
				u.CreateRev = row.CreateRev
			}
			var err error
			if u.Value, err = json.Marshal(all); err != nil {
				w.Fatal(err)
			}
			if !yield(written{u, o}) {
				return
			}
		}
	}
}

func (w *world) apply(space key.Space, data []byte) {
	var updates []table.Update
	for u := range w.updates(space, data) {
		updates = append(updates, u.Update)
	}
	w.write(updates...)
}

func (w *world) write(updates ...table.Update) {
	w.rev++
	if err := w.table.Apply(w.rev, updates); err != nil {
		w.Fatal(err)
	}
}

// assigned returns the digests of objects at locations, or why they are held.
func (w *world) assigned() map[string]string {
	all := map[string]string{}
	w.table.Snapshot().Ascend("o/", func(row *table.Row) bool {
		m, ok := row.In.(*placement.Membership)
		if !ok {
			return true
		}
		for _, p := range m.Places() {
			digest, err := w.Renderer.Digest(row.Entry, p.Class)
			text := fmt.Sprintf("%s %+v", digest, p.Policy)
			if err != nil {
				text = "fails"
			}
			all[string(p.Location)+" "+row.Key] = text
		}
		return true
	})
	return all
}

// happens performs the write, compares the preview with the new assignments, and reverts it.
func (w *world) happens() {
	w.Helper()
	snapshot := w.table.Snapshot()
	a := &answer{Previewer: w.Previewer, lists: func(key.Object) bool { return true }, until: w.Now().Add(timeout)}
	if w.value != nil {
		a.row = &table.Row{Entry: table.NewEntry(w.policy.Key(), w.value, w.rev+1, w.rev+1)}
	}
	s := placement.Supposition{State: snapshot, Policy: w.policy, Row: a.row, Compilers: w.Compilers, Most: w.objects}
	var predicted map[string]counts
	if w.policy.Resource == key.Placements {
		m := a.moved(s)
		m.remove.merge(m.leave)
		m.treat.merge(m.hold)
		m.treat.merge(m.resume)
		predicted = map[string]counts{"comes": m.arrive, "goes": m.remove}
	} else {
		r := a.rendered(s)
		predicted = map[string]counts{"changes": r.change, "fails": r.fail, "mended": r.mend}
	}
	old, row := w.assigned(), snapshot.Get(w.policy.Key())
	w.write(table.Update{Key: w.policy.Key(), Value: w.value, CreateRev: w.rev + 1, ModRev: w.rev + 1})
	now := w.assigned()
	if row != nil {
		w.write(table.Update{Key: row.Key, Value: row.Value, CreateRev: row.CreateRev, ModRev: w.rev + 1})
	} else {
		w.write(table.Update{Key: w.policy.Key(), ModRev: w.rev + 1})
	}
	if back := w.assigned(); !maps.Equal(back, old) {
		w.Errorf("locations had %v, and have %v again", old, back)
	}
	if !a.whole {
		return
	}
	happened := map[string]map[key.Location]int{}
	for kind := range predicted {
		happened[kind] = map[key.Location]int{}
	}
	for place := range maps.Keys(join(old, now)) {
		l, _, _ := strings.Cut(place, " ")
		before, assigned := old[place]
		after, hasNow := now[place]
		kind := "changes"
		switch {
		case !assigned:
			kind = "comes"
		case !hasNow:
			kind = "goes"
		case before == after:
			continue
		case after == "fails":
			kind = "fails"
		case before == "fails":
			kind = "mended"
		}
		if happened[kind] != nil {
			happened[kind][key.Location(l)]++
		}
	}
	for kind, c := range predicted {
		if c.byLocation == nil {
			c.byLocation = map[key.Location]int{}
		}
		if !maps.Equal(c.byLocation, happened[kind]) {
			w.Errorf("%s: predicted is %v, what happens is %v", kind, c.byLocation, happened[kind])
		}
	}
}

func join(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func (c *counts) merge(o counts) {
	for l, n := range o.byLocation {
		c.add(n, []key.Location{l})
	}
}

// TestBounds shows that an answer says so if not everything was looked at, and names some
// of the locations only.
func TestBounds(t *testing.T) {
	builtin, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, builtin)
	var docs []string
	for i := range 20 {
		docs = append(docs, fmt.Sprintf("{kind: Location, metadata: {name: l%02d}, spec: {properties: {nr: %d}}}\n", i, i))
	}
	w.apply(key.Root, []byte(strings.Join(docs, "---\n")))
	docs = nil
	for i := range 10 {
		docs = append(docs, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: n, name: c%d}, data: {a: b}}\n", i))
	}
	w.apply("s", []byte(strings.Join(docs, "---\n")))
	const (
		placed = "{kind: Placement, metadata: {name: p}, spec: {locations: [{selector: {}}], downsync: [{resources: [configmaps]}]}}"
		ruled  = "{kind: Customizer, metadata: {name: c}, spec: {match: [{resources: [configmaps]}], rules: [{path: $.data.a, expression: string(location.properties.nr)}]}}"
	)
	tell := func(policy string) string {
		t.Helper()
		for u := range w.updates("s", []byte(policy)) {
			return strings.Join(w.Tell(t.Context(), u.object, u.Value), "\n")
		}
		return ""
	}
	expect := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	const some = "l00 +%[1]d, l01 +%[1]d, l02 +%[1]d, l03 +%[1]d, l04 +%[1]d, l05 +%[1]d and 14 more"
	expect(tell(placed), "would place 10 objects at 20 locations: "+fmt.Sprintf(some, 10))
	w.objects = 7
	expect(tell(placed), "would place at least 7 objects at 20 locations: "+fmt.Sprintf(some, 7))
	w.objects = maxObjects
	w.apply("s", []byte(placed))
	w.renderings = 3 * 2 * 20 // three objects, as they are and would be, at each location
	expect(tell(ruled), "would change at least 3 objects at 20 locations: "+strings.ReplaceAll(fmt.Sprintf(some, 3), "+", ""))
	now := time.Time{}
	w.Now = func() time.Time { now = now.Add(timeout / 50); return now }
	w.renderings = maxRenderings
	expect(tell(ruled), "would change at least 2 objects at 20 locations: "+strings.ReplaceAll(fmt.Sprintf(some, 2), "+", ""))
	w.objects, w.renderings = 7, 0
	expect(tell(ruled), "would change nothing of what was looked at, which is not all")
}

// TestLinesFit: the lines fit into headers for all results, so that no client gets a truncated one.
func TestLinesFit(t *testing.T) {
	place := map[key.Location]int{}
	for i := range 5000 {
		place[key.Location(fmt.Sprintf("%063d", i))] = 50_000
	}
	all := counts{50_000, place}
	r := rendered{failures: map[failedRule]*failure{}, change: all, fail: all, still: all, mend: all}
	for i := range 100 {
		text := brief(strings.Repeat("\u00e4", 10_000))
		r.failures[failedRule{strings.Repeat("c", 253), i}] = &failure{message: text, counts: all, example: text}
	}
	size := 0
	for _, line := range (&answer{}).changed(&r) {
		size += len(line)
	}
	if size > 4<<10 {
		t.Errorf("the lines have %d bytes, of which a server cuts all but 4 KiB", size)
	}
}

// TestRootIsRemarked: a reader without the right to list all objects that a Placement of root may
// place gets a note, whether or not any are omitted.
func TestRootIsRemarked(t *testing.T) {
	builtin, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, builtin)
	w.May = func(_ context.Context, _ string, o key.Object) bool { return o.Space == key.Root }
	w.apply(key.Root, []byte("{kind: Location, metadata: {name: l}}\n---\n{kind: Space, metadata: {name: s}}\n"))
	w.apply("s", []byte("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: n, name: c}}\n"))
	w.apply(key.Root, []byte("{kind: Placement, metadata: {name: p}, spec: {spaces: {names: [s]}, locations: [{selector: {}}], downsync: [{resources: [configmaps]}]}}"))
	got := w.Tell(t.Context(), key.Object{Space: key.Root, Identity: key.Identity{Resource: key.Placements, Name: "p"}}, nil)
	if len(got) != 2 || !strings.Contains(got[1], "are not counted") {
		t.Errorf("of a deletion it is told: %q", got)
	}
}
