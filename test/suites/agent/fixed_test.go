package agent_test

import (
	"fmt"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

const fixedCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"fixeds.example.net"},
"spec":{"group":"example.net","names":{"kind":"Fixed","listKind":"FixedList","plural":"fixeds","singular":"fixed"},"scope":"Namespaced",
"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
"class":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"Value is immutable"}]},
"size":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= oldSelf","message":"may not change to less"}]},
"note":{"type":"string"}}}}}},"served":true,"storage":true}]}}`

// customFixed: a custom resource is made anew for a field that its definition keeps as it is, and
// not for one that may only grow. If it was deleted in the space and made again, it is for both.
func customFixed(s *site) {
	t := s.t
	object := func(name, class string, size int, text string) string {
		return fmt.Sprintf(`{"apiVersion":"example.net/v1","kind":"Fixed","metadata":{"name":%q,"namespace":%q},"spec":{"class":%q,"size":%d,"note":%q}}`,
			name, s.name, class, size, text)
	}
	key := func(name string) string { return "team/example.net/fixeds/" + s.name + "/" + name }
	s.hub.Put("team/apiextensions.k8s.io/customresourcedefinitions/fixeds.example.net", "uid-crd", fixedCRD)
	s.hub.PutWith(key("class"), "uid-c", object("class", "one", 2, "a"), recreates)
	s.hub.PutWith(key("size"), "uid-s", object("size", "one", 2, "a"), recreates)
	s.start()
	s.reports(key("class"), wire.Applied, "")
	s.reports(key("size"), wire.Applied, "")
	uid := func(name string) string {
		t.Helper()
		var b []byte
		env.Eventually(t, soon, func() (err error) {
			b, err = s.client.CoreV1().RESTClient().Get().AbsPath("/apis/example.net/v1/namespaces/" + s.name + "/fixeds/" + name).DoRaw(t.Context())
			return err
		})
		_, rest, _ := strings.Cut(string(b), `"uid":"`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	class, size := uid("class"), uid("size")
	s.hub.PutWith(key("class"), "uid-c", object("class", "two", 3, "b"), recreates)
	s.hub.PutWith(key("size"), "uid-s", object("size", "two", 1, "b"), recreates)
	s.reports(key("class"), wire.Applied, "")
	if r := s.reports(key("size"), wire.Failed, v1alpha1.ReasonImmutable); !strings.Contains(r.Message, "not known to be immutable: spec.size") {
		t.Errorf("message %q", r.Message)
	}
	env.Eventually(t, soon, func() error {
		if uid("class") == class {
			return fmt.Errorf("it is the same object")
		}
		return nil
	})
	if uid("size") != size {
		t.Error("it was made anew for a field that may change")
	}
	s.halt()
	s.hub.Del(key("size"), wire.Deleted)
	s.hub.Put(key("size"), "uid-s2", object("size", "two", 1, "b"))
	s.start()
	s.reports(key("size"), wire.Applied, "")
	if uid("size") == size {
		t.Error("it is the same object")
	}
}
