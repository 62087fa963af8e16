package life

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// kept is an object as a model remembers it.
type kept struct {
	uid, rv, value, label string
}

// state has the objects of a space by path, such as configmaps/n/a.
type state map[string]kept

// model is the expected content of a space, with its history.
type model struct {
	name string
	// number reports whether the CRD of the space defines its field as a number, or as a string.
	number bool
	now    state
	// past has the state after each write, by revision of the log.
	past []past
	// tokens are continue tokens of its lists.
	tokens []string
}

type past struct {
	rev int64
	state
}

// stateAt returns the state at a revision; ok is false before the first one.
func (m *model) stateAt(rev int64) (s state, ok bool) {
	for _, p := range slices.Backward(m.past) {
		if p.rev <= rev {
			return p.state, true
		}
	}
	return nil, false
}

// wrote records the state after a write.
func (m *model) wrote(rev int64) { m.past = append(m.past, past{rev, maps.Clone(m.now)}) }

// violation is the panic value that ends a life; it names the violated rule.
type violation string

// life is some spaces, their models and the random generator of requests.
type life struct {
	ctx    context.Context
	hub    *hub
	rng    *rand.Rand
	seed   uint64
	spaces []*model
	log    []string
	// allowedUID is a UID of another space that the response may contain, since the request does.
	allowedUID string
}

func (l *life) wrong(format string, args ...any) { panic(violation(fmt.Sprintf(format, args...))) }

// history returns the last requests.
func (l *life) history() string {
	const shown = 12
	return strings.Join(l.log[max(0, len(l.log)-shown):], "\n")
}

// mark returns a text that every object of a space contains, and no object of another space.
func (l *life) mark(m *model) string { return fmt.Sprintf("in-%s-end", m.name) }

// send sends a request to a space, or to the hub if m is nil, and checks that the response contains
// nothing of other spaces.
func (l *life) send(m *model, method, path, content, body string) answer {
	if m != nil {
		path = "/spaces/" + m.name + path
	}
	got, err := l.hub.request(l.ctx, method, path, content, body)
	if err != nil {
		l.wrong("%s %s: %v", method, path, err)
	}
	l.log = append(l.log, fmt.Sprintf("%s %s %.200s -> %d %.200s", method, path, body, got.code, got.raw))
	for _, other := range l.spaces {
		if m == nil || other == m {
			continue
		}
		text := string(got.raw)
		for _, k := range other.now {
			if k.uid != l.allowedUID && strings.Contains(text, k.uid) {
				l.wrong("%s %s answers the UID %s of %s: %s", method, path, k.uid, other.name, got)
			}
		}
		if strings.Contains(text, l.mark(other)) {
			l.wrong("%s %s answers something of %s: %s", method, path, other.name, got)
		}
	}
	return got
}

// expect ends the life unless an answer has one of some codes.
func (l *life) expect(got answer, codes ...int) answer {
	if !slices.Contains(codes, got.code) {
		l.wrong("got %s, want %d", got, codes)
	}
	return got
}

// open makes a space, whose kind Widget is defined in its own way.
func (l *life) open(i int) {
	m := &model{name: fmt.Sprintf("apart-%d-%d", l.seed, i), number: i%2 == 0, now: state{}}
	l.expect(l.send(nil, http.MethodPost, spaces, asJSON, spaceNamed(m.name)), http.StatusCreated)
	l.spaces = append(l.spaces, m)
	size := `{"type":"string","default":"` + l.mark(m) + `"}`
	if m.number {
		size = fmt.Sprintf(`{"type":"integer","default":%d}`, l.defaultSize(m))
	}
	l.expect(l.send(m, http.MethodPost, crds, asJSON, fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.org"},
		"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"data":{"type":"object","additionalProperties":{"type":"string"}},"size":%s}}}}]}}`, size)), http.StatusCreated)
	l.expect(l.send(m, http.MethodPost, "/api/v1/namespaces", asJSON, namespaceNamed("n")), http.StatusCreated)
	m.wrote(l.revision(m))
}

// defaultSize is what a widget without a size gets where that is a number.
func (l *life) defaultSize(m *model) int { return 1000 + len(m.name) + slices.Index(l.spaces, m) }

// revision is that of the log.
func (l *life) revision(m *model) int64 {
	return l.expect(l.send(m, http.MethodGet, "/api/v1/namespaces?limit=1", "", ""), http.StatusOK).field("metadata.resourceVersion").Int()
}

func (l *life) pick(from ...string) string { return from[l.rng.IntN(len(from))] }

// object is a place for one.
type object struct{ resource, namespace, name string }

// aPlace is a place at random; there are few, so that names are equal everywhere.
func (l *life) aPlace() object {
	return object{l.pick("configmaps", "configmaps", "widgets"), l.pick("default", "n"), l.pick("a", "b", "c", "d.e")}
}

func (o object) path() string { return o.resource + "/" + o.namespace + "/" + o.name }

// collection is where the objects of a resource in a namespace are, "" for all.
func collection(resource, namespace string) string {
	root := "/api/v1"
	if resource == "widgets" {
		root = "/apis/example.org/v1"
	}
	if namespace == "" {
		return root + "/" + resource
	}
	return root + "/namespaces/" + namespace + "/" + resource
}

func (o object) collection() string { return collection(o.resource, o.namespace) }

func (o object) url() string { return o.collection() + "/" + o.name }

// body is the object with a value, a label and what else its metadata has.
func (o object) body(value, label, metadata string) string {
	kind := `"apiVersion":"v1","kind":"ConfigMap"`
	if o.resource == "widgets" {
		kind = `"apiVersion":"example.org/v1","kind":"Widget"`
	}
	return fmt.Sprintf(`{%s,"metadata":{"name":%q,"labels":{"l":%q}%s},"data":{"v":%q}}`, kind, o.name, label, metadata, value)
}

// keep remembers an object as it came back from a write.
func (l *life) keep(m *model, o object, got answer) {
	m.now[o.path()] = l.read(m, gjson.ParseBytes(got.raw))
	m.wrote(got.field("metadata.resourceVersion").Int())
}

// read is an object as it is shown.
func (l *life) read(m *model, v gjson.Result) kept {
	if size := v.Get("size"); v.Get("kind").String() == "Widget" {
		want := l.mark(m)
		if m.number {
			want = strconv.Itoa(l.defaultSize(m))
		}
		if (size.Type == gjson.Number) != m.number || size.String() != want {
			l.wrong("space %s shows a widget by another's definition: %s", m.name, v)
		}
	}
	return kept{v.Get("metadata.uid").String(), v.Get("metadata.resourceVersion").String(), v.Get("data.v").String(), v.Get("metadata.labels.l").String()}
}

// within are the objects of a state in a collection.
func (s state) within(resource, namespace string, chosen func(path string, k kept) bool) state {
	out := state{}
	for path, k := range s {
		r, rest, _ := strings.Cut(path, "/")
		ns, _, _ := strings.Cut(rest, "/")
		if r == resource && (namespace == "" || ns == namespace) && (chosen == nil || chosen(path, k)) {
			out[path] = k
		}
	}
	return out
}

// listed are the objects of a list.
func (l *life) listed(m *model, resource string, got answer) state {
	out := state{}
	for _, item := range got.field("items").Array() {
		if resource == "widgets" && !strings.Contains(item.Raw, `"kind"`) {
			l.wrong("a widget without a kind: %s", item)
		}
		out[resource+"/"+item.Get("metadata.namespace").String()+"/"+item.Get("metadata.name").String()] = l.read(m, item)
	}
	return out
}

func (s state) String() string {
	text, err := json.Marshal(slices.Sorted(maps.Keys(s)))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// same compares what a space shows with what it must.
func (l *life) same(m *model, what string, got, want state) {
	if maps.Equal(got, want) {
		return
	}
	for path, k := range want {
		if got[path] != k {
			l.wrong("%s of space %s has %s as %+v, the model %+v", what, m.name, path, got[path], k)
		}
	}
	l.wrong("%s of space %s has %s, the model %s", what, m.name, got, want)
}

// check compares every space with its model.
func (l *life) check() {
	for _, m := range l.spaces {
		for _, resource := range []string{"configmaps", "widgets"} {
			got := l.expect(l.send(m, http.MethodGet, collection(resource, ""), "", ""), http.StatusOK)
			l.same(m, "a list", l.listed(m, resource, got), m.now.within(resource, "", nil))
		}
	}
}

// everywhere compares the list across all spaces with their models.
func (l *life) everywhere() {
	got := l.expect(l.send(nil, http.MethodGet, "/spaces/*/api/v1/configmaps?labelSelector="+url.QueryEscape("l"), "", ""), http.StatusOK)
	counts := map[string]int{}
	for _, item := range got.field("items").Array() {
		space := item.Get(`metadata.annotations.orrery\.dev/space`).String()
		counts[space]++
		for _, m := range l.spaces {
			path := "configmaps/" + item.Get("metadata.namespace").String() + "/" + item.Get("metadata.name").String()
			if m.name == space && m.now[path].uid != item.Get("metadata.uid").String() {
				l.wrong("the list across all spaces has an object in %s that does not exist: %s", space, item)
			}
		}
	}
	for _, m := range l.spaces {
		if want := len(m.now.within("configmaps", "", nil)); counts[m.name] != want {
			l.wrong("the list across all spaces has %d ConfigMaps of %s, the model has %d", counts[m.name], m.name, want)
		}
	}
}
