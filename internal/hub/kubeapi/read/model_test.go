package read

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// model is a naive copy of the log, with the whole state of every revision.
type model struct {
	states []map[string]written // by revision
}

// newModel has what a fixture has.
func newModel() *model {
	there := map[string]written{}
	for _, u := range thereAlready() {
		there[u.Key] = written{u.Value, u.ModRev}
	}
	return &model{states: []map[string]written{there}}
}

// written is a value and the revision that wrote it.
type written struct {
	value []byte
	rev   int64
}

// angle is a request: a view and a query.
type angle struct {
	lens      Lens
	gvr       schema.GroupVersionResource
	namespace string
	name      string
	selector  string
}

func (a angle) String() string {
	return fmt.Sprintf("%s %s ns=%q name=%q l=%q", a.lens, a.gvr.Resource, a.namespace, a.name, a.selector)
}

// seen is an object as the model expects clients to read it.
type seen struct {
	// place orders the objects of a list.
	place string
	// content changes if and only if a watch must send an event.
	content string
	// object is the whole JSON, without the resourceVersion.
	object string
	// rev is the object's own revision.
	rev int64
}

// visible returns the objects of an angle at a revision, by place.
func (m *model) visible(rev int64, a angle) map[string]seen {
	values := map[string][]byte{}
	for k, w := range m.states[rev] {
		values[k] = w.value
	}
	placed, kind := placeAll(values), known()[a.gvr]
	if l, ok := a.lens.(reportsLens); ok {
		return reportedAt(values, placed, a, l)
	}
	result := map[string]seen{}
	for k, w := range m.states[rev] {
		o, err := key.ParseObject(k)
		if err != nil || o.Resource != kind.Resource {
			continue
		}
		s := seen{place: strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), rev: w.rev, object: strings.TrimSpace(string(w.value))}
		s.content = fmt.Sprint(w.rev)
		switch l := a.lens.(type) {
		case spaceLens:
			if o.Space != l.name {
				continue
			}
		case allSpacesLens:
			s.place = string(o.Space) + "/" + s.place
			var object map[string]any
			if err := json.Unmarshal(w.value, &object); err != nil {
				panic(err)
			}
			object["metadata"].(map[string]any)["annotations"] = map[string]any{v1alpha1.SpaceAnnotation: string(o.Space)}
			s.object = compact(object)
		case locationLens:
			p, ok := placed[k].Place(l.name)
			if !ok || p.Held != "" || p.Owner != "" {
				continue
			}
			travelled, err := kind.Travel(w.value)
			if err != nil {
				panic(err)
			}
			if needs := classOf(values, l.name); needs != "" {
				if travelled, err = followRules(travelled, []placement.Input{{Needs: needs}}); err != nil {
					panic(err)
				}
			}
			s.object = withOwnership(travelled, o, kind.GVK.Kind, w.value, values[l.name.Key()])
			s.content = s.object
		case exportLens:
			object, place, ok := inExportView(values, k, l)
			if !ok {
				continue
			}
			s.object, s.place = object, place
			o.Namespace, o.Name = l.wide.ObjectName("", o)
		}
		selector, err := labels.Parse(a.selector)
		if err != nil {
			panic(err)
		}
		set := labels.Set{}
		for name, v := range gjson.Get(s.object, "metadata.labels").Map() {
			set[name] = v.String()
		}
		if selector.Matches(set) && (a.namespace == "" || a.namespace == o.Namespace) && (a.name == "" || a.name == o.Name) {
			result[s.place] = s
		}
	}
	return result
}

// withOwnership returns an object as an agent gets it, with its ownership metadata.
func withOwnership(travelled []byte, o key.Object, kind string, source, location []byte) string {
	var object map[string]any
	if err := json.Unmarshal(travelled, &object); err != nil {
		panic(err)
	}
	maps := map[string]map[string]any{"labels": {}, "annotations": {}}
	metadata := object["metadata"].(map[string]any)
	for name := range maps {
		if there, ok := metadata[name].(map[string]any); ok {
			maps[name] = there
		}
		metadata[name] = maps[name]
	}
	maps["labels"]["orrery.dev/space"] = string(o.Space)
	if location != nil {
		maps["labels"]["orrery.dev/location"] = gjson.GetBytes(location, "metadata.name").Str + "." + fmt.Sprintf("%.8s", gjson.GetBytes(location, "metadata.uid").Str)
	}
	maps["annotations"]["orrery.dev/source-kind"] = kind
	maps["annotations"]["orrery.dev/source-namespace"] = o.Namespace
	maps["annotations"]["orrery.dev/source-name"] = o.Name
	maps["annotations"]["orrery.dev/source-uid"] = gjson.GetBytes(source, "metadata.uid").Str
	return compact(object)
}

func compact(o any) string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// sent is one event of a watch.
type sent struct {
	kind  watch.EventType
	place string
	rev   int64
	// object is the whole JSON, without the resourceVersion.
	object string
}

// between returns the events that a watch must send after one revision and up to another.
func (m *model) between(after, upTo int64, a angle) []sent {
	var events []sent
	for rev := after + 1; rev <= upTo; rev++ {
		before, now := m.visible(rev-1, a), m.visible(rev, a)
		places := map[string]bool{}
		for p := range before {
			places[p] = true
		}
		for p := range now {
			places[p] = true
		}
		first := len(events)
		for _, p := range slices.Sorted(maps.Keys(places)) {
			old, existed := before[p]
			cur, exists := now[p]
			switch {
			case !existed:
				events = append(events, sent{watch.Added, p, rev - 1, cur.object})
			case !exists:
				events = append(events, sent{watch.Deleted, p, rev - 1, old.object})
			case old.content != cur.content:
				events = append(events, sent{watch.Modified, p, rev - 1, cur.object})
			}
		}
		if _, ok := a.lens.(exportLens); ok { // objects written at the revision come last
			slices.SortStableFunc(events[first:], func(x, y sent) int {
				return cmp.Compare(bit(now[x.place].rev == rev), bit(now[y.place].rev == rev))
			})
		}
		if len(events) > first {
			events[len(events)-1].rev = rev
		}
	}
	return events
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// options are what a client sends for an angle.
func (a angle) options(version string) (context.Context, *metainternalversion.ListOptions) {
	opts := &metainternalversion.ListOptions{ResourceVersion: version}
	selector, err := labels.Parse(a.selector)
	if err != nil {
		panic(err)
	}
	opts.LabelSelector = selector
	if a.name != "" {
		opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", a.name)
	}
	return request.WithNamespace(context.Background(), a.namespace), opts
}

func genAngle(t *rapid.T, label string) angle {
	a := angle{
		lens: rapid.SampledFrom([]Lens{Space("a"), Space("b"), AllSpaces(), Location("l1", key.Same), Location("l2", key.Same),
			viewOf(wholeView(), "*", math.MaxInt64), viewOf(wholeView(), "a", math.MaxInt64), viewOf(sliceOf("web"), "*", math.MaxInt64),
			viewOf(sliceOf("web"), "a", math.MaxInt64), viewOf(sliceOf(""), "*", math.MaxInt64), Reports("a", "l1"), Reports("*", "l1"), Reports("a", "*"), Reports("*", "*")}).Draw(t, label),
		gvr: rapid.SampledFrom([]schema.GroupVersionResource{configMaps, configMaps, namespaces, widgetsV1}).Draw(t, "resource"),
	}
	if a.gvr == widgetsV1 {
		if _, ok := a.lens.(allSpacesLens); ok {
			a.gvr = configMaps
		}
	}
	if a.gvr != namespaces {
		a.namespace = rapid.SampledFrom([]string{"", "", "n1", "n2"}).Draw(t, "namespace")
	}
	a.name = rapid.SampledFrom([]string{"", "", "", "x"}).Draw(t, "name")
	a.selector = rapid.SampledFrom([]string{"", "", "app=web", "app!=web", "hold", "orrery.dev/location", "orrery.dev/space in (a,ab)", "orrery.dev/location=l1.0a1b2c3d",
		"orrery.dev/health=Degraded", "orrery.dev/state!=Applied", "orrery.dev/state=Pending"}).Draw(t, "selector")
	if l, ok := a.lens.(exportLens); ok && l.wide.Spaces {
		if a.namespace != "" {
			a.namespace = rapid.SampledFrom([]string{"a--", "ab--", "a-b--", ""}).Draw(t, "of space") + a.namespace
		} else if a.gvr == namespaces && a.name != "" {
			a.name = "a--" + a.name
		}
	}
	if l, ok := a.lens.(reportsLens); ok { // names there say more
		if l.wide.Spaces && a.namespace != "" {
			a.namespace = rapid.SampledFrom([]string{"a--", "ab--"}).Draw(t, "of space") + a.namespace
		}
		if l.wide.Spaces && a.gvr == namespaces && a.name != "" {
			a.name = "a--" + a.name
		}
		if l.wide.Locations && a.name != "" {
			a.name = rapid.SampledFrom([]string{"l1.", "l2."}).Draw(t, "of location") + a.name
		}
	}
	return a
}

// genUpdates makes the changes of one revision: mostly one, sometimes several.
func genUpdates(t *rapid.T, now map[string]written) []table.Update {
	var updates []table.Update
	taken := map[string]bool{}
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(t, "changes") {
		if rapid.IntRange(0, 9).Draw(t, "deny") == 0 && !taken[denyKey] {
			taken[denyKey] = true
			updates = append(updates, table.Update{Key: denyKey, Value: []byte(rapid.SampledFrom([]string{"", "l1", "l2", "l1 l2"}).Draw(t, "denied") + " ")})
			continue
		}
		if rapid.IntRange(0, 7).Draw(t, "class") == 0 && !taken[classKey] {
			taken[classKey] = true
			class := rapid.SampledFrom([]string{"", "l1=1", "l1=2", "l1=1 l2=2", "l2=db", "l1=db l2=db"}).Draw(t, "classes")
			updates = append(updates, table.Update{Key: classKey, Value: []byte(class + " ")})
			continue
		}
		if rapid.IntRange(0, 7).Draw(t, "shelves") == 0 && !taken[withoutViewKey] {
			taken[withoutViewKey] = true
			not := rapid.SampledFrom([]string{"", "a", "ab web", "web", "a-b db"}).Draw(t, "not there")
			updates = append(updates, table.Update{Key: withoutViewKey, Value: []byte(not + " ")})
			continue
		}
		o := sample{
			gvr:   rapid.SampledFrom([]schema.GroupVersionResource{configMaps, configMaps, namespaces, widgetsV1}).Draw(t, "of"),
			space: rapid.SampledFrom([]key.Space{"a", "a-b", "ab", "b"}).Draw(t, "in"),
			name:  rapid.SampledFrom([]string{"x", "x-y", "z"}).Draw(t, "named"),
		}
		if o.gvr != namespaces {
			o.namespace = rapid.SampledFrom([]string{"n1", "n1-1", "n2"}).Draw(t, "within")
		}
		if taken[o.key()] {
			continue
		}
		taken[o.key()] = true
		if rapid.IntRange(0, 2).Draw(t, "report") == 0 {
			if u := genReport(t, now, o); !taken[u.Key] {
				taken[u.Key] = true
				updates = append(updates, u)
			}
			continue
		}
		if _, ok := now[o.key()]; ok && rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
			updates = append(updates, table.Update{Key: o.key()})
			continue
		}
		o.labels = map[string]string{}
		for _, values := range [][]string{{"app", "", "web", "db"}, {"at", "", "l1", "l2", "l1.l2"}, {"hold", "", "", "", "why"},
			{"orrery.dev/location", "", "", "upper"}} {
			name, values := values[0], values[1:]
			if v := rapid.SampledFrom(values).Draw(t, name); v != "" {
				o.labels[name] = v
			}
		}
		o.content = map[string]any{"data": map[string]any{"v": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "data")}}
		updates = append(updates, table.Update{Key: o.key(), Value: o.value()})
	}
	return updates
}

// step applies the changes of one revision to the table and to the model.
func step(t *rapid.T, f *fixture, m *model) {
	now := maps.Clone(m.states[len(m.states)-1])
	updates := genUpdates(t, now)
	rev := f.apply(slices.Clone(updates)...)
	for _, u := range updates {
		if u.Value == nil {
			delete(now, u.Key)
		} else {
			now[u.Key] = written{u.Value, rev}
		}
	}
	m.states = append(m.states, now)
}

func (m *model) rev() int64 { return int64(len(m.states) - 1) }
