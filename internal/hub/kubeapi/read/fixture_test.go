package read

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/custom"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

var builtins = sync.OnceValue(func() *kinds.Catalog {
	r, err := registry.New()
	if err != nil {
		panic(err)
	}
	return r.Builtin(key.Root)
})

// known has the kinds of all tests, compiled once.
var known = sync.OnceValue(func() map[schema.GroupVersionResource]*kinds.Kind {
	all := map[schema.GroupVersionResource]*kinds.Kind{}
	for _, k := range builtins().Kinds() {
		all[k.GVR] = k
	}
	compiler, err := custom.NewCompiler(custom.DefaultLimits())
	if err != nil {
		panic(err)
	}
	definition, err := compiler.Compile(widgets())
	if err != nil {
		panic(err)
	}
	for _, k := range definition.Kinds() {
		all[k.GVR] = k
	}
	return all
})

var (
	bindings    = schema.GroupVersionResource{Group: "orrery.dev", Version: "v1alpha1", Resource: "apibindings"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	exports     = schema.GroupVersionResource{Group: "orrery.dev", Version: "v1alpha1", Resource: "apiexports"}
	exportViews = schema.GroupVersionResource{Group: "orrery.dev", Version: "v1alpha1", Resource: "apiexportviews"}
	locations   = schema.GroupVersionResource{Group: "orrery.dev", Version: "v1alpha1", Resource: "locations"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	scalersV1   = schema.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"}
	widgetsV1   = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

func widgets() *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage,
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
			},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
		},
	}
}

// fixture is a Server over a table that a test feeds.
type fixture struct {
	t        tester
	table    *table.Writer
	server   *Server
	requests atomic.Int64 // over HTTP

	mu  sync.Mutex
	rev int64
}

// tester is a test or one case of a property.
type tester interface {
	Helper()
	Error(args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newFixture(t tester, change ...func(*Config, *table.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t}
	tc := table.Config{WindowSteps: 10000, WindowBytes: 64 << 20, Deriver: &labelled{}}
	vc := DefaultConfig()
	vc.Committed = func(ctx context.Context) error {
		f.mu.Lock()
		rev := f.rev
		f.mu.Unlock()
		return f.table.WaitFor(ctx, rev)
	}
	for _, fn := range change {
		fn(&vc, &tc)
	}
	f.table = table.New(tc)
	f.table.Reset(0, thereAlready())
	vc.Table = f.table.Table
	vc.Renderer = render.New(builtins())
	vc.Renderer.Follow = followRules
	server, err := New(vc)
	if err != nil {
		t.Fatal(err)
	}
	f.server = server
	return f
}

// thereAlready are spaces and locations that no test makes.
func thereAlready() (rows []table.Update) {
	for _, s := range []key.Space{"a", "a-b", "ab", "b", "other", "p"} {
		rows = append(rows, table.Update{Key: s.Key(), Value: fmt.Appendf(nil, `{"metadata":{"name":%q}}`, s)})
	}
	for _, l := range []key.Location{"l1", "l2", "north", "south"} {
		rows = append(rows, table.Update{Key: l.Key(), Value: sample{gvr: locations, space: key.Root, name: string(l)}.value()})
	}
	for _, o := range offered() {
		rows = append(rows, table.Update{Key: o.key(), Value: o.value()})
	}
	return rows
}

// sample is one stored object of a test.
type sample struct {
	gvr             schema.GroupVersionResource
	space           key.Space
	namespace, name string
	labels          map[string]string
	content         map[string]any // beside metadata
	annotations     map[string]string
}

// cm is a ConfigMap in namespace "default".
func cm(space key.Space, name, data string, labels ...string) sample {
	o := sample{gvr: configMaps, space: space, namespace: "default", name: name, content: map[string]any{"data": map[string]any{"k": data}}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		if o.labels == nil {
			o.labels = map[string]string{}
		}
		o.labels[k] = v
	}
	return o
}

func (o sample) key() string {
	k := known()[o.gvr]
	return key.Object{Space: o.space, Identity: key.Identity{Resource: k.Resource, Namespace: o.namespace, Name: o.name}}.Key()
}

// value is the object as the log has it.
func (o sample) value() []byte {
	k := known()[o.gvr]
	metadata := map[string]any{"name": o.name, "uid": "uid-" + o.name, "creationTimestamp": "2026-01-02T03:04:05Z"}
	if o.namespace != "" {
		metadata["namespace"] = o.namespace
	}
	if len(o.labels) > 0 {
		metadata["labels"] = o.labels
	}
	if len(o.annotations) > 0 {
		metadata["annotations"] = o.annotations
	}
	object := map[string]any{"apiVersion": k.Storage.String(), "kind": k.GVK.Kind, "metadata": metadata}
	maps.Copy(object, o.content)
	value, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return append(value, '\n')
}

// put writes objects in one revision.
func (f *fixture) put(objects ...sample) {
	var updates []table.Update
	for _, o := range objects {
		updates = append(updates, table.Update{Key: o.key(), Value: o.value()})
	}
	f.apply(updates...)
}

func (f *fixture) del(objects ...sample) {
	var updates []table.Update
	for _, o := range objects {
		updates = append(updates, table.Update{Key: o.key()})
	}
	f.apply(updates...)
}

// apply applies updates in one revision, which it returns.
func (f *fixture) apply(updates ...table.Update) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rev++
	for i := range updates {
		updates[i].CreateRev, updates[i].ModRev = f.rev, f.rev
	}
	if err := f.table.Apply(f.rev, updates); err != nil {
		f.t.Fatal(err)
	}
	return f.rev
}

func (f *fixture) reader(l Lens, gvr schema.GroupVersionResource) *reader {
	k, ok := known()[gvr]
	if !ok {
		f.t.Fatalf("no kind for %s", gvr)
	}
	return f.server.reader(l, k)
}

// serve serves /spaces/NAME/... and /views/locations/NAME/... over HTTP.
func (f *fixture) serve() *httptest.Server {
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		f.requests.Add(1)
		var lens Lens
		segments := strings.SplitN(req.URL.Path, "/", 5)
		switch {
		case strings.HasPrefix(req.URL.Path, string(route.Exports)), strings.HasPrefix(req.URL.Path, string(route.Slices)):
			root, rest := route.Parse(req.URL.Path)
			exportView, s, _ := root.ExportView()
			lens = viewOf(exportView, s, f.table.Rev())
			req.URL.Path = "/" + rest
		case strings.HasPrefix(req.URL.Path, string(route.ReportViews)):
			root, rest := route.Parse(req.URL.Path)
			s, l, _ := root.Reported()
			lens = Reports(s, l)
			req.URL.Path = "/" + rest
		case segments[1] == "views":
			lens = Location(key.Location(segments[3]), key.Same)
			req.URL.Path = "/" + segments[4]
		case segments[2] == "*":
			lens = AllSpaces()
			req.URL.Path = "/" + strings.Join(segments[3:], "/")
		default:
			lens = Space(key.Space(segments[2]))
			req.URL.Path = "/" + strings.Join(segments[3:], "/")
		}
		info, err := resolver.NewRequestInfo(req)
		if err != nil {
			f.t.Error(err)
			return
		}
		ctx := request.WithRequestInfo(audit.WithAuditContext(req.Context()), info)
		ctx = request.WithReceivedTimestamp(ctx, time.Now())
		k := known()[schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}]
		if k == nil {
			http.NotFound(w, req)
			return
		}
		handler, err := f.server.Handler(lens, k, info)
		if err != nil {
			responsewriters.ErrorNegotiated(err, k.Scope("").Serializer, k.GVK.GroupVersion(), w, req)
			return
		}
		handler(w, req.WithContext(ctx))
	}))
	f.t.(testing.TB).Cleanup(func() {
		f.server.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// labelled is a Deriver by the label "at", which names locations with dots
// between them, and by one more row that denies locations. It recomputes
// everything each time.
type labelled struct{ placed map[string]*placedAt }

const denyKey = "m/deny"

// classKey is the key of the row with the classes of locations: LOCATION=NEEDS, separated by
// spaces.
const classKey = "m/classes"

// classes are those of tests by what they need of their location.
var classes = sync.OnceValue(func() map[string]*placement.Class {
	all := map[string]*placement.Class{}
	for _, needs := range []string{"1", "2", "db"} {
		all[needs] = &placement.Class{Inputs: []placement.Input{{Rules: "set", Needs: needs}}}
	}
	return all
})

// classOf returns the input of a location's class, or "" if it has no class.
func classOf(values map[string][]byte, location key.Location) string {
	for entry := range strings.FieldsSeq(string(values[classKey])) {
		if l, needs, _ := strings.Cut(entry, "="); l == string(location) {
			return needs
		}
	}
	return ""
}

// followRules is the rule of the classes: a value of the object is what they need, and
// it has a label if they need "db".
func followRules(object []byte, inputs []placement.Input) ([]byte, error) {
	var decoded map[string]any
	if err := json.Unmarshal(object, &decoded); err != nil {
		return nil, err
	}
	decoded["data"] = map[string]any{"v": inputs[0].Needs}
	if inputs[0].Needs == "db" {
		decoded["metadata"].(map[string]any)["labels"] = map[string]any{"app": "db"}
	}
	return json.Marshal(decoded)
}

// placedAt is the membership of one row.
type placedAt struct{ places []placement.Place }

func (a *placedAt) Locations() []key.Location {
	var names []key.Location
	for _, p := range a.places {
		names = append(names, p.Location)
	}
	return names
}

func (a *placedAt) Includes(l key.Location) bool {
	_, ok := a.Place(l)
	return ok
}

func (a *placedAt) SameAt(l key.Location, other table.Membership) bool {
	place, ok := a.Place(l)
	previous, existed := other.(*placedAt).Place(l)
	return ok == existed && place == previous
}

func (a *placedAt) Place(l key.Location) (placement.Place, bool) {
	for _, p := range a.places {
		if p.Location == l {
			return p, true
		}
	}
	return placement.Place{}, false
}

func (d *labelled) Reset() { d.placed = nil }

func (d *labelled) Derive(state table.Reader, changes []table.Change) []table.Assignment {
	values := map[string][]byte{}
	for _, prefix := range []string{"o/", denyKey, classKey} {
		state.Ascend(prefix, func(row *table.Row) bool {
			values[row.Key] = row.Value
			return true
		})
	}
	placed := placeAll(values)
	changed := map[string]bool{}
	for _, c := range changes {
		changed[c.Row().Key] = true
	}
	var assigned []table.Assignment
	for _, k := range slices.Sorted(keysOf(placed)) {
		if old, ok := d.placed[k]; ok && slices.Equal(old.places, placed[k].places) {
			placed[k] = old
			if !changed[k] {
				continue
			}
		}
		if len(placed[k].places) > 0 {
			assigned = append(assigned, table.Assignment{Key: k, In: placed[k]})
		} else if !changed[k] {
			assigned = append(assigned, table.Assignment{Key: k})
		}
	}
	d.placed = placed
	return assigned
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// placeAll returns the locations of all objects of a state. Of objects with the same identity, that
// of the first space wins. The label "hold" holds an object.
func placeAll(values map[string][]byte) map[string]*placedAt {
	denied := string(values[denyKey])
	winners := map[string]string{}
	placed := map[string]*placedAt{}
	for _, k := range slices.Sorted(keysOf(values)) {
		if !strings.HasPrefix(k, "o/") {
			continue
		}
		var object struct {
			Metadata struct{ Labels map[string]string } `json:"metadata"`
		}
		if err := json.Unmarshal(values[k], &object); err != nil {
			panic(err)
		}
		a := &placedAt{}
		_, resource, rest, _ := key.Split(k)
		for name := range strings.SplitSeq(object.Metadata.Labels["at"], ".") {
			l := key.Location(name)
			if l == "" || strings.Contains(denied, name) {
				continue
			}
			p := placement.Place{Location: l, Held: object.Metadata.Labels["hold"], Class: classes()[classOf(values, l)]}
			identity := fmt.Sprint(l, resource, rest)
			if winner, taken := winners[identity]; taken {
				p.Owner = winner
			} else {
				winners[identity] = k
			}
			a.places = append(a.places, p)
		}
		slices.SortFunc(a.places, func(x, y placement.Place) int { return cmp.Compare(x.Location, y.Location) })
		placed[k] = a
	}
	return placed
}
