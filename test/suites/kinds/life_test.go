package kinds

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/test/support/env"
)

// TestEveryKindInASpace creates, reads, applies, patches and deletes an object of every
// kind, request by request.
func TestEveryKindInASpace(t *testing.T) {
	hub := env.StartHub(t)
	env.CreateSpace(t, hub.Kubeconfig, "lives")
	config := hub.PathConfig("spaces/lives")
	all := samples(t, config)
	space := newAPI(t, config)
	space.must(t, http.MethodPost, "/api/v1/namespaces", asYAML, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+shop+"}"))
	codecs := newCodecs(t)
	for _, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			l := life{t: t, api: space, sample: s, codecs: codecs}
			l.create()
			l.encodings()
			l.apply()
			l.patches()
			if s.status {
				l.subresource()
			}
			l.end()
		})
	}
}

// life is what happens to one sample.
type life struct {
	t *testing.T
	api
	sample
	codecs serializer.CodecFactory
}

func (l *life) create() {
	l.t.Helper()
	l.check(l.must(l.t, http.MethodPost, l.collection(), asJSON, l.canonical))
	if code, answer := l.do(l.t, http.MethodPost, l.collection(), asJSON, asJSON, l.canonical); code != http.StatusConflict {
		l.t.Errorf("created again, it is answered with %d: %s", code, answer)
	}
}

// check checks that an answer has all that was written.
func (l *life) check(got map[string]any) {
	l.t.Helper()
	if d := lacks(l.written(l.t), got, ""); d != "" {
		l.t.Errorf("what was written is not kept: %s", d)
	}
}

// encodings reads the object in each encoding; all of them mean the same.
func (l *life) encodings() {
	l.t.Helper()
	fromJSON := l.raw(l.t, http.MethodGet, l.path(), "", asJSON, nil)
	fromYAML, err := yaml.YAMLToJSON(l.raw(l.t, http.MethodGet, l.path(), "", asYAML, nil))
	if err != nil {
		l.t.Fatal(err)
	}
	fromProtobuf := l.raw(l.t, http.MethodGet, l.path(), "", asProtobuf, nil)
	want := l.decode(fromJSON)
	for how, data := range map[string][]byte{"YAML": fromYAML, "protobuf": fromProtobuf} {
		if got := l.decode(data); !equality.Semantic.DeepEqual(got, want) {
			l.t.Errorf("as %s it is\n%+v\nwant\n%+v", how, got, want)
		}
	}

	table := decode(l.t, l.raw(l.t, http.MethodGet, l.path(), "", asTable, nil))
	columns, _ := table["columnDefinitions"].([]any)
	rows, _ := table["rows"].([]any)
	if table["kind"] != "Table" || len(rows) != 1 || len(columns) < 2 {
		l.t.Fatalf("as a table it is %v", table)
	}
	row, _ := rows[0].(map[string]any)
	cells, _ := row["cells"].([]any)
	if len(cells) != len(columns) {
		l.t.Errorf("a row has %d cells for %d columns: %v", len(cells), len(columns), table)
	}
	// Classes that are the default say so behind their name; Events begin with a time.
	if l.gvk.Kind != "Event" && !strings.HasPrefix(fmt.Sprint(cells...), l.name) {
		l.t.Errorf("the first cell is not the name: %v", cells)
	}
}

func (l *life) decode(data []byte) runtime.Object {
	l.t.Helper()
	object, gvk, err := l.codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		l.t.Fatalf("decode %s: %v", data, err)
	}
	if *gvk != l.gvk {
		l.t.Errorf("it is a %s", gvk)
	}
	object.GetObjectKind().SetGroupVersionKind(*gvk) // protobuf has it outside
	m, err := meta.Accessor(object)
	if err != nil {
		l.t.Fatal(err)
	}
	m.SetManagedFields(nil) // JSON in a string, which YAML sorts
	return object
}

// apply applies the sample server-side, twice: the second apply changes nothing. The
// first is forced: in some kinds, what a client leaves out of a list is there once the
// list has been encoded, as on a real cluster, so that the list differs from the one that
// was created.
func (l *life) apply() {
	l.t.Helper()
	generation := valueAt(l.get(l.t, l.path()), "metadata", "generation")
	path := l.path() + "?fieldManager=applier&force=true"
	first := l.must(l.t, http.MethodPatch, path, applyPatch, l.yaml)
	l.check(first)
	if g := valueAt(first, "metadata", "generation"); g != generation {
		l.t.Errorf("applying what is there raised the generation from %v to %v", generation, g)
	}
	second := l.must(l.t, http.MethodPatch, path, applyPatch, l.yaml)
	if !reflect.DeepEqual(first, second) {
		l.t.Errorf("an apply without a change made\n%v\nof\n%v", second, first)
	}
}

// patches changes a label by each kind of patch, and checks that nothing else changes.
func (l *life) patches() {
	l.t.Helper()
	before := l.get(l.t, l.path())
	for _, p := range []struct{ contentType, body, want string }{
		{mergePatch, `{"metadata":{"labels":{"patched":"merge"}}}`, "merge"},
		{strategicPatch, `{"metadata":{"labels":{"patched":"strategic"}}}`, "strategic"},
		{jsonPatch, `[{"op":"test","path":"/metadata/labels/patched","value":"strategic"},{"op":"replace","path":"/metadata/labels/patched","value":"json"}]`, "json"},
	} {
		after := l.must(l.t, http.MethodPatch, l.path()+"?fieldManager=patcher", p.contentType, []byte(p.body))
		if got := valueAt(after, "metadata", "labels", "patched"); got != p.want {
			l.t.Errorf("after a patch with %s the label is %v", p.contentType, got)
		}
		if valueAt(after, "metadata", "resourceVersion") == valueAt(before, "metadata", "resourceVersion") {
			l.t.Errorf("a patch with %s made no new version", p.contentType)
		}
		if a, b := withoutMeta(after), withoutMeta(before); !reflect.DeepEqual(a, b) {
			l.t.Errorf("a patch of a label with %s made\n%v\nof\n%v", p.contentType, a, b)
		}
		if g := valueAt(after, "metadata", "generation"); g != valueAt(before, "metadata", "generation") {
			l.t.Errorf("a label raised the generation to %v", g)
		}
		l.check(after)
		before = after
	}
}

// subresource writes the status, and then the rest, each time with a change of the other,
// which must not be taken over.
func (l *life) subresource() {
	l.t.Helper()
	status := decode(l.t, []byte(statuses[l.gvk.Kind]))
	before := l.get(l.t, l.path())
	put := with(before, status, "status")
	delete(put, "spec")
	if before["spec"] == nil {
		l.t.Fatalf("no spec: %v", before)
	}
	after := l.must(l.t, http.MethodPut, l.path()+"/status", asJSON, encode(l.t, put))
	if d := lacks(status, after["status"], ".status"); d != "" {
		l.t.Errorf("a status is not kept: %s", d)
	}
	if !reflect.DeepEqual(before["spec"], after["spec"]) {
		l.t.Errorf("writing status made spec\n%v\nof\n%v", after["spec"], before["spec"])
	}
	if g := valueAt(after, "metadata", "generation"); g != valueAt(before, "metadata", "generation") {
		l.t.Errorf("writing status raised the generation to %v", g)
	}

	put = with(after, "main", "metadata", "labels", "patched")
	put["status"] = map[string]any{}
	main := l.must(l.t, http.MethodPut, l.path(), asJSON, encode(l.t, put))
	if valueAt(main, "metadata", "labels", "patched") != "main" {
		l.t.Errorf("a put is not kept: %v", main["metadata"])
	}
	if !reflect.DeepEqual(main["status"], after["status"]) {
		l.t.Errorf("a put of the object made status\n%v\nof\n%v", main["status"], after["status"])
	}
	if got := l.get(l.t, l.path()+"/status"); !reflect.DeepEqual(got, main) {
		l.t.Errorf("get of status answers\n%v\nwant\n%v", got, main)
	}
	l.check(main)
}

// end deletes the object. What is in a Namespace or of a CRD goes first.
func (l *life) end() {
	l.t.Helper()
	l.must(l.t, http.MethodDelete, l.path(), asJSON, nil)
	env.Eventually(l.t, soon, func() error {
		if l.exists(l.t, l.path()) {
			return errors.New("it is there after its deletion")
		}
		return nil
	})
}

func withoutMeta(object map[string]any) map[string]any { return with(object, nil, "metadata") }

// newCodecs decode what a client of all built-in kinds decodes.
func newCodecs(t *testing.T) serializer.CodecFactory {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(scheme)
}
