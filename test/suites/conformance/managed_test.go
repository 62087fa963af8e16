package conformance

import (
	"encoding/json"
	"net/http"
	"strings"
)

func fieldManagerRules(s *side) {
	s.create("a")
	for _, manager := range []string{"m", "", strings.Repeat("m", 128), strings.Repeat("m", 129), "a%0Ab", "%E2%98%BA", "a%00b", "with%20space"} {
		s.patch(typeMerge, s.in("configmaps", "a")+"?fieldManager="+manager, `{"data":{"n":"`+s.number()+`"}}`)
		s.apply(s.in("configmaps", "a")+"?force=true&fieldManager="+manager, configMap("a"))
	}
	s.apply(s.in("configmaps", "a"), configMap("a"))
	s.apply(s.in("configmaps", "a")+"?fieldManager=m&force=maybe", configMap("a"))
	s.patch(typeMerge, s.in("configmaps", "a")+"?force=true", `{"data":{"n":"x"}}`)
	s.post(s.in("configmaps")+"?fieldManager="+strings.Repeat("m", 129), configMap("b"))
	s.post(s.in("configmaps"), configMap("c"), "User-Agent: kubectl/v1.2.3 (linux/amd64) kubernetes/abc")
	s.post(s.in("configmaps"), configMap("d"), "User-Agent: ")
	s.post(s.in("configmaps"), configMap("e"), "User-Agent: "+strings.Repeat("u", 200)+"/x")
}

func managedFieldsOfUpdates(s *side) {
	cms := s.in("configmaps")
	s.post(cms+"?fieldManager=one", configMap("a", "x=y"))
	s.patch(typeMerge, cms+"/a?fieldManager=two", `{"data":{"b":"1"},"metadata":{"annotations":{"n":"1"},"finalizers":["example.org/f"],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"11111111-2222-3333-4444-555555555555"}]}}`)
	s.patch(typeMerge, cms+"/a?fieldManager=two", `{"data":{"b":null}}`)
	s.patch(typeJSONPatch, cms+"/a?fieldManager=one", `[{"op":"replace","path":"/metadata/labels/x","value":"z"},{"op":"remove","path":"/metadata/finalizers"}]`)
	before := s.get(cms + "/a")
	again := s.patch(typeMerge, cms+"/a?fieldManager=three", `{"data":{"k":"v"}}`)
	s.say("nothing changed, nothing written: %v", before.rv() == again.rv())
	read, _ := json.Marshal(before.object)
	put := s.put(cms+"/a?fieldManager=three", string(read))
	s.say("the same put again: %v", before.rv() == put.rv())
}

func managedFieldsOfApply(s *side) {
	cms := s.in("configmaps")
	s.apply(cms+"/a?fieldManager=one", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: one}}\ndata: {a: one, b: one}\n")
	first := s.get(cms + "/a")
	again := s.apply(cms+"/a?fieldManager=one", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: one}}\ndata: {a: one, b: one}\n")
	s.say("the same applied again: %v", first.rv() == again.rv())
	s.apply(cms+"/a?fieldManager=two", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {b: one, c: two}\n")
	s.apply(cms+"/a?fieldManager=two", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: two}}\ndata: {a: two, b: two}\n")
	s.apply(cms+"/a?fieldManager=two&force=true", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: two, b: two}\n")
	s.apply(cms+"/a?fieldManager=one", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	s.apply(cms+"/a?fieldManager=two", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: two}\n")
	s.patch(typeMerge, cms+"/a?fieldManager=kubectl-edit", `{"data":{"a":"edited"}}`)
	s.apply(cms+"/a?fieldManager=two", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: two}\n")
	s.apply(cms+"/a?fieldManager=two", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	s.put(cms+"/a?fieldManager=two", configMap("a"))
}

// applyToLists merges lists by their keys, sets and atomic ones.
func applyToLists(s *side) {
	sc := "/apis/networking.k8s.io/v1/ingressclasses/" + s.ns
	class := func(meta, controller string) string {
		return "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: " + s.ns + meta + "}\nspec: {controller: " + controller + "}\n"
	}
	s.apply(sc+"?fieldManager=one", class(", finalizers: [example.org/a]", "example.org/a"))
	s.apply(sc+"?fieldManager=two", class(", finalizers: [example.org/b]", "example.org/b"))
	s.apply(sc+"?fieldManager=two", class(", finalizers: [example.org/b]", "example.org/a"))
	s.apply(sc+"?fieldManager=one", class("", "example.org/a"))
	s.apply(sc+"?fieldManager=one", class(", finalizers: [example.org/a, example.org/a]", "example.org/a"))
	s.apply(s.in("serviceaccounts", "e")+"?fieldManager=one", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: e}\nimagePullSecrets: [{name: a}, {name: b}]\nsecrets: [{name: a}]\n")
	s.apply(s.in("serviceaccounts", "e")+"?fieldManager=two", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: e}\nimagePullSecrets: [{name: c}]\n")
	s.apply(s.in("serviceaccounts", "e")+"?fieldManager=one", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: e}\nimagePullSecrets: [{name: b}]\n")
	s.apply(s.in("serviceaccounts", "e")+"?fieldManager=one", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: e}\nimagePullSecrets: [{name: b}, {name: b}]\n")
}

func applyToStatus(s *side) {
	group := s.ns + ".example.org"
	s.define(group, `{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`)
	path := s.inGroup(group+"/v1", "widgets", "w")
	widget := func(rest string) string {
		return `{"apiVersion":"` + group + `/v1","kind":"Widget","metadata":{"name":"w"}` + rest + `}`
	}
	s.apply(path+"/status?fieldManager=st", widget(`,"status":{"n":1}`))
	s.apply(path+"?fieldManager=sp", widget(`,"spec":{"n":1},"status":{"n":5}`))
	s.apply(path+"/status?fieldManager=st", widget(`,"spec":{"n":7},"status":{"n":1}`))
	s.apply(path+"/status?fieldManager=other", widget(`,"status":{"n":2}`))
	s.apply(path+"/status?fieldManager=other&force=true", widget(`,"status":{"n":2}`))
	s.apply(path+"?fieldManager=sp", widget(`,"spec":{}`))
	s.patch(typeMerge, path+"/status?fieldManager=up", `{"status":{"m":1},"metadata":{"labels":{"x":"y"}}}`)
	s.apply(path+"/status?fieldManager=other", widget(``))
}

func badApplies(s *side) {
	cms := s.in("configmaps")
	s.create("a")
	const head = "apiVersion: v1\nkind: ConfigMap\n"
	for _, body := range []string{
		head + "metadata: {name: b}\n", head + "metadata: {name: a, namespace: other}\n", head + "metadata: {}\n", "kind: ConfigMap\nmetadata: {name: a}\n",
		"apiVersion: v1\nmetadata: {name: a}\n", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: a}\n", "apiVersion: apps/v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		head + "metadata: {name: a, managedFields: [{manager: x, operation: Update}]}\n", head + "metadata: {name: a, resourceVersion: \"1\"}\n", head + "metadata: {name: a, uid: x}\n",
		head + "metadata: {name: a}\ndata: [x]\n", head + "metadata: {name: a}\ndata: {k: 1}\n", head + "metadata: {name: a}\ndata: {k: null}\n", head + "metadata: {name: a}\nunknown: 1\n", head + "metadata: {name: a, generateName: g-}\n",
		"a: [", "", "null", "x", "- a", "{}", "\x00", "---\n" + head + "metadata: {name: a}\n---\n" + head + "metadata: {name: b}\n",
	} {
		s.say("apply %q", body)
		s.apply(cms+"/a?fieldManager=m&force=true", body)
	}
	s.apply(cms+"/none?fieldManager=m", head+"metadata: {name: none, resourceVersion: \"5\"}\n")
	s.apply(cms+"/none?fieldManager=m", head+"metadata: {name: none, uid: 11111111-2222-3333-4444-555555555555}\n")
	s.apply(cms+"?fieldManager=m", head+"metadata: {name: none}\n")
	s.apply("/api/v1/namespaces/none/configmaps/x?fieldManager=m", head+"metadata: {name: x}\n")
}

func managedFieldsOfClients(s *side) {
	cms := s.in("configmaps")
	s.post(cms+"?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","time":"2020-01-01T00:00:00Z","fieldsV1":{"f:data":{"f:zzz":{}}}}]},"data":{"k":"v"}}`)
	for _, managed := range []string{`[{}]`, `[]`, `null`, `[{"manager":"x","operation":"Merge","fieldsType":"FieldsV1"}]`, `[{"manager":"x","operation":"Update","fieldsType":"FieldsV2","fieldsV1":{}}]`,
		`[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"bad":{}}}]`, `[{"manager":"` + strings.Repeat("x", 129) + `","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]`,
		`[{"manager":"y","operation":"Apply","apiVersion":"v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k":{}}}}]`} {
		s.patch(typeMerge, cms+"/a?fieldManager=m", `{"metadata":{"managedFields":`+managed+`}}`)
	}
	s.apply(cms+"/a?fieldManager=z", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: z}\n")
	s.put(cms+"/a?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[{}]},"data":{"k":"new"}}`)
	s.quietly(http.MethodGet, cms+"/a", "")
}
