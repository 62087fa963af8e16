package agentapi

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

type log struct {
	*table.Writer
	rev     int64
	created map[string]int64
}

func newLog() *log {
	return &log{Writer: table.New(table.Config{WindowSteps: 10, WindowBytes: 1 << 20}), created: map[string]int64{}}
}

func object(name, uid string, takesOver ...string) *unstructured.Unstructured {
	spec := map[string]any{}
	if takesOver != nil {
		var all []any
		for _, mark := range takesOver {
			all = append(all, mark)
		}
		spec["takesOver"] = all
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "orrery.dev/v1alpha1", "kind": "Location", "metadata": map[string]any{"name": name, "uid": uid}, "spec": spec,
	}}
}

func (l *log) put(o *unstructured.Unstructured) {
	b, err := json.Marshal(o.Object)
	if err != nil {
		panic(err)
	}
	l.write(o.GetName(), b)
}

func (l *log) remove(name string) { l.write(name, nil) }

func (l *log) write(name string, value []byte) {
	l.rev++
	if l.created[name] == 0 || value == nil {
		l.created[name] = l.rev
	}
	u := table.Update{Key: key.Location(name).Key(), Value: value, CreateRev: l.created[name], ModRev: l.rev}
	if value == nil {
		u.CreateRev = 0
		delete(l.created, name)
	}
	if err := l.Apply(l.rev, []table.Update{u}); err != nil {
		panic(err)
	}
}

// admitted is the error of a write.
func (l *log) admitted(now, before *unstructured.Unstructured) error {
	kind := schema.GroupVersionKind{Group: "orrery.dev", Version: "v1alpha1", Kind: "Location"}
	a := admission.NewAttributesRecord(now, nil, kind, "", now.GetName(), kind.GroupVersion().WithResource("locations"), "", admission.Create, nil, false, nil)
	if before != nil {
		a = admission.NewAttributesRecord(now, before, kind, "", now.GetName(), kind.GroupVersion().WithResource("locations"), "", admission.Update, nil, false, nil)
	}
	return TakeoverAdmission(l.Table).Validate(context.Background(), a, nil)
}

// TestSuccession checks which locations may take over the objects of which others.
func TestSuccession(t *testing.T) {
	l := newLog()
	const edge, plant = "edge.11111111", "plant.99999999"
	l.put(object("edge", "11111111-2222"))
	l.put(object("heir", "33333333-4444", edge, plant))
	granted := func(name string, want ...string) {
		t.Helper()
		if got := GrantedTakeovers(l.Table, key.Location(name)); !slices.Equal(got, want) {
			t.Errorf("%s takes over %q, want %q", name, got, want)
		}
	}
	refused := func(err error, want string) {
		t.Helper()
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) || want == "" && err != nil {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	granted("nobody")
	granted("edge")
	granted("heir", plant) // not from one that exists
	refused(l.admitted(object("x", "", edge), nil), "the location edge exists")
	refused(l.admitted(object("x", "", plant), nil), "another location takes it over")
	refused(l.admitted(object("edge", "11111111-2222", edge), object("edge", "11111111-2222")), "exists")
	refused(l.admitted(object("x", "", "rome.11111111"), nil), "")
	refused(l.admitted(object("x", "", "edge.22222222"), nil), "") // an earlier one of the name
	refused(l.admitted(object("heir", "33333333-4444", edge, plant), object("heir", "33333333-4444", edge, plant)), "")

	l.remove("edge")
	granted("heir", edge, plant)
	l.put(object("edge", "55555555-6666", edge)) // written before heir's was known, at another hub
	granted("edge")
	granted("heir", edge, plant)
	l.remove("heir")
	granted("edge", edge)
}
