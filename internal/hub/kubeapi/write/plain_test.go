package write_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/protocol/key"
)

// fromLibrary is a query by which the library answers as it does without one.
const fromLibrary = "pretty=false"

// unlike matches the fields that differ between two equal creations.
var unlike = regexp.MustCompile(`"(uid|resourceVersion|creationTimestamp|time)":"[^"]+"`)

func alike(raw []byte) string { return unlike.ReplaceAllString(string(raw), `"$1":""`) }

// TestPlainCreates: what is created without the library is stored and answered as the library does
// it, byte for byte, for samples of all kinds.
func TestPlainCreates(t *testing.T) {
	h := newHub(t)
	seen := map[*kinds.Kind]bool{}
	for _, s := range plainSamples(t) {
		seen[s.kind] = true
		h.comparePlain(s)
	}
	for _, kind := range shared.registry.Builtin("a").Kinds() {
		if kind.Created != nil && !seen[kind] && shared.registry.Builtin("a").Access(kind) != kinds.Review && !leftToLibrary(kind.GVK.Kind) {
			t.Errorf("there is no sample of %s", kind.GVK)
		}
	}
}

// leftToLibrary says of kinds that the library alone creates their objects.
func leftToLibrary(kind string) bool {
	return kind == "Namespace" || kind == "CustomResourceDefinition" || kind == "Event"
}

// plainSample is an object of a kind whose objects may be created without the library.
type plainSample struct {
	kind   *kinds.Kind
	object object
}

// plainSamples are samples of all these kinds, without a namespace and a status.
func plainSamples(t *testing.T) (all []plainSample) {
	t.Helper()
	files, err := filepath.Glob("../../kinds/builtin/testdata/objects/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var o object
			if err := yaml.Unmarshal(doc, &o); err != nil {
				t.Fatal(err)
			}
			m, _ := o["metadata"].(object)
			for _, k := range shared.registry.Builtin("a").Kinds() {
				if m == nil || k.GVK.GroupVersion().String() != o["apiVersion"] || k.GVK.Kind != o["kind"] ||
					k.Created == nil || leftToLibrary(k.GVK.Kind) || shared.registry.Builtin("a").Access(k) == kinds.Review {
					continue
				}
				delete(m, "namespace")
				delete(o, "status")
				all = append(all, plainSample{k, o})
			}
		}
	}
	return all
}

// path is where objects of the kind are in a space.
func (s plainSample) path() string {
	root := "/apis/" + s.kind.GVR.Group
	if s.kind.GVR.Group == "" {
		root = "/api"
	}
	root += "/" + s.kind.GVR.Version
	if s.kind.Namespaced {
		root += "/namespaces/default"
	}
	return root + "/" + s.kind.GVR.Resource
}

// key is where the object is stored in a space.
func (s plainSample) key(in key.Space) string {
	id := key.Identity{Resource: s.kind.Resource, Name: s.object["metadata"].(object)["name"].(string)}
	if s.kind.Namespaced {
		id.Namespace = "default"
	}
	return key.Object{Space: in, Identity: id}.Key()
}

// createPlainly creates an object in the space a without the library, and returns the answer; nil: it
// is left to the library.
func (h *hub) createPlainly(s plainSample, manager string) []byte {
	h.t.Helper()
	body, err := json.Marshal(s.object)
	if err != nil {
		h.t.Fatal(err)
	}
	info := &request.RequestInfo{IsResourceRequest: true, Verb: "create", APIGroup: s.kind.GVR.Group, APIVersion: s.kind.GVR.Version, Resource: s.kind.GVR.Resource}
	if s.kind.Namespaced {
		info.Namespace = "default"
	}
	h.caughtUp()
	ctx := request.WithRequestInfo(write.WithSpace(h.ctx, "a"), info)
	made, known := h.server.CreatePlainly(request.WithUser(ctx, &user.DefaultInfo{Name: "tester"}), s.kind, body, manager)
	if !known {
		h.t.Fatalf("all %s are left to the library", s.kind.GVK)
	}
	return made
}

// comparePlain creates an object in two spaces, in the one without the library.
func (h *hub) comparePlain(s plainSample) {
	h.t.Helper()
	made := h.createPlainly(s, "m")
	if made == nil {
		h.t.Errorf("%s is left to the library: %v", s.kind.GVK, s.object)
		return
	}
	want := h.must(201, h.do("POST", "b", s.path()+"?fieldManager=m&"+fromLibrary, s.object))
	if alike(made) != alike(want.raw) {
		h.t.Errorf("%s:\n got %s\nwant %s", s.kind.GVK, made, want.raw)
	}
	got, stored := h.stored(s.key("a")), h.stored(s.key("b"))
	if got == nil || alike(got) != alike(stored) {
		h.t.Errorf("%s: stored at %s\n got %s\nwant %s", s.kind.GVK, s.key("a"), got, stored)
	}
}

// TestPlainAnswers: whatever is sent is answered as the library answers it, with its warnings and
// headers.
func TestPlainAnswers(t *testing.T) {
	h := newHub(t)
	for i, body := range []string{
		``, `{`, `[]`, `null`, `{}`, `"text"`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"}}`,
		`{"metadata":{"name":"NAME"}}`,
		` {"kind":"ConfigMap" , "apiVersion":"v1", "metadata":{"name":"NAME","labels":{"a":"b"},"finalizers":["x/y","a/b"]},"data":{"z":"1","a":"2"},"binaryData":{"b":"aGk="}} `,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","annotations":{"ä":"<&>","x":"\u2028"}},"data":{"k":"<&>\u0000"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"immutable":true,"data":{}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"unknown":1,"data":{"a":"b","a":"c"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"Data":{"a":"b"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":{"a":1}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"Not_A_Name"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","namespace":"other"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","namespace":"default"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","resourceVersion":"7"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","labels":{"a b":"c"}}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","annotations":{"orrery.dev/return-status":"never"}}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","uid":"mine","generation":7,"creationTimestamp":"2020-01-01T00:00:00Z","deletionTimestamp":"2020-01-01T00:00:00Z","selfLink":"/x"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","managedFields":[]}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","managedFields":null}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","managedFields":[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":"1","b":"2"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"},{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"NAME"}}`,
		`{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"NAME"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":{"deep":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":{"long":"` + strings.Repeat("x", 2<<20) + `"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":{"longer":"` + strings.Repeat("x", 4<<20) + `"}}`,
	} {
		for j, query := range []string{"", "fieldManager=m", "fieldManager=%C3%A4", "fieldManager=m&fieldValidation=Strict", "fieldValidation=Ignore", "fieldValidation=x", "dryRun=All", "fieldManager=a&fieldManager=b", "other=1"} {
			text := strings.ReplaceAll(body, "NAME", fmt.Sprintf("o-%d-%d", i, j))
			got := h.do("POST", "a", configMaps+"?"+query, text)
			want := h.do("POST", "b", configMaps+"?"+strings.TrimPrefix(query+"&"+fromLibrary, "&"), text)
			if got.code != want.code || alike(got.raw) != alike(want.raw) || fmt.Sprint(got.warnings) != fmt.Sprint(want.warnings) {
				t.Errorf("%.300s, %s:\n got %d %s %v\nwant %d %s %v", text, query, got.code, got.raw, got.warnings, want.code, want.raw, want.warnings)
			}
		}
	}
	exists := configMap("twice", nil)
	h.must(201, h.do("POST", "a", configMaps, exists))
	h.refused(h.do("POST", "a", configMaps, exists), 409, metav1.StatusReasonAlreadyExists, "twice")
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	for _, kind := range shared.registry.Builtin("a").Kinds() {
		if kind.GVK.Kind != "ConfigMap" {
			continue
		}
		info := &request.RequestInfo{Namespace: "default", Resource: "configmaps", APIVersion: "v1"}
		if made, _ := h.server.CreatePlainly(request.WithRequestInfo(write.WithSpace(ctx, "a"), info), kind, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"gone"}}`), "m"); made != nil {
			t.Errorf("created for a client that is gone: %s", made)
		}
	}
}
