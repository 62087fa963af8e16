package schemaversion

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestKinds: the table has every kind that hubs store, with the digest of its schema, so that a
// change of a schema can't be made without a new version.
func TestKinds(t *testing.T) {
	listed, err := rows(table)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]row{}
	next := first
	for _, r := range listed {
		known[r.kind], next = r, max(next, r.version+1)
	}
	var want []string
	wrong := false
	for kind, digest := range digests(t) {
		r, ok := known[kind]
		if delete(known, kind); !ok || r.digest != digest {
			r, wrong = row{kind, digest, next}, true
		}
		want = append(want, fmt.Sprintf("%s %d %s", r.kind, r.version, r.digest))
	}
	slices.Sort(want)
	if wrong || len(known) > 0 {
		t.Errorf("schemas have changed: replace the rows of kinds.txt by these (one new version for each release is enough):\n%s", strings.Join(want, "\n"))
	}
}

// TestRows: what is no row is refused, with its text.
func TestRows(t *testing.T) {
	all, err := rows("# a comment\n\na.b 2 d\nc 1 e\n")
	if want := []row{{"a.b", "d", 2}, {"c", "e", 1}}; err != nil || !slices.Equal(all, want) {
		t.Errorf("%v, %v", all, err)
	}
	for _, text := range []string{"a", "a b c", "a 0 d"} {
		if _, err := rows(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// digests are those of the schemas of all kinds that are built in, by their names.
func digests(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	r, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	catalog := r.Builtin(key.Root)
	for _, k := range catalog.Kinds() {
		if k.Custom == nil && catalog.Access(k) != kinds.Review {
			all[k.GVR.GroupResource().String()] += describe(reflect.TypeOf(k.New()), nil)
		}
	}
	files, err := filepath.Glob("../registry/crds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name, schema := ownSchema(t, f)
		all[name] = schema
	}
	for name, text := range all {
		sum := sha256.Sum256([]byte(text))
		all[name] = hex.EncodeToString(sum[:8])
	}
	if len(all) < 40 {
		t.Fatalf("found %d kinds", len(all))
	}
	return all
}

// ownSchema is the name and the schema of one of Orrery's kinds, without descriptions.
func ownSchema(t *testing.T, file string) (name, schema string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Metadata struct{ Name string }
		Spec     struct{ Versions []any }
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(undescribed(crd.Spec.Versions))
	if err != nil || !strings.HasSuffix(crd.Metadata.Name, "."+v1alpha1.GroupVersion.Group) {
		t.Fatalf("%s: %q, %v", file, crd.Metadata.Name, err)
	}
	return crd.Metadata.Name, string(text)
}

func undescribed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if _, text := v["description"].(string); text {
			delete(v, "description")
		}
		for name := range v {
			v[name] = undescribed(v[name])
		}
	case []any:
		for i := range v {
			v[i] = undescribed(v[i])
		}
	}
	return v
}

// describe is the fields of a Go type as its JSON has them, with those of the types below it.
func describe(typ reflect.Type, above []reflect.Type) string {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice:
		return "[" + describe(typ.Elem(), above) + "]"
	case reflect.Map:
		return "{" + describe(typ.Elem(), above) + "}"
	case reflect.Struct:
	default:
		return typ.Kind().String()
	}
	if slices.Contains(above, typ) || reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Marshaler]()) {
		return typ.String()
	}
	var fields []string
	for f := range typ.Fields() {
		fields = append(fields, f.Tag.Get("json")+":"+describe(f.Type, append(slices.Clone(above), typ)))
	}
	return "(" + strings.Join(fields, ",") + ")"
}
