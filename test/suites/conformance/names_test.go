package conformance

import (
	"encoding/json"
	"strings"
)

func generateName(s *side) {
	cms := s.in("configmaps")
	generated := func(meta string) {
		a, err := s.do("POST", cms, `{"apiVersion":"v1","kind":"ConfigMap","metadata":`+meta+`}`)
		prefix := a.text("metadata", "generateName")
		s.say("%s: %v %d", meta, err, a.code)
		s.log.hide(a.text("metadata", "name"), "(generated)")
		s.log.hide(a.text("details", "name"), "(generated)")
		s.log.answer(a)
		s.say("%d letters behind the prefix", len(strings.TrimPrefix(a.text("metadata", "name"), prefix)))
	}
	generated(`{"generateName":"web-"}`)
	generated(`{"generateName":"` + strings.Repeat("x", 250) + `"}`)
	generated(`{"generateName":"web-","name":""}`)
	s.post(cms, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"web-","name":"fixed"}}`)
	generated(`{"generateName":"Not Valid"}`)
	s.post(cms, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`)
	s.post(cms, `{"apiVersion":"v1","kind":"ConfigMap"}`)
	s.put(cms+"/x", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"x-"}}`)
}

func mismatches(s *side) {
	cms := s.in("configmaps")
	s.create("a")
	with := func(meta string) string { return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{` + meta + `}}` }
	s.post(cms, with(`"name":"b","namespace":"other"`))
	s.post(cms, with(`"name":"b","namespace":"`+s.ns+`"`))
	s.put(cms+"/a", with(`"name":"b"`))
	s.put(cms+"/a", with(`"name":"a","namespace":"other"`))
	s.put(cms+"/a", with(``))
	s.patch(typeMerge, cms+"/a", `{"metadata":{"name":"b"}}`)
	s.patch(typeMerge, cms+"/a", `{"metadata":{"namespace":"other"}}`)
	s.patch(typeMerge, cms+"/a", `{"kind":"Secret"}`)
	s.patch(typeMerge, cms+"/a", `{"apiVersion":"apps/v1"}`)
	s.patch(typeMerge, cms+"/a", `{"apiVersion":"v2"}`)
	s.post(cms, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`)
	s.post(cms, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"}}`)
	s.post(cms, `{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"x"}}`)
	s.post(cms, `{"kind":"ConfigMap","metadata":{"name":"nov"}}`)
	s.post(cms, `{"metadata":{"name":"nothing"}}`)
	s.post(cms, `{"apiVersion":"v1","kind":"Nonsense","metadata":{"name":"x"}}`)
	s.post(cms, `{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"x"}}`)
	s.post("/apis/node.k8s.io/v1/runtimeclasses", `{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"`+s.ns+`","namespace":"x"},"handler":"h"}`)
	s.post("/api/v1/namespaces/none/configmaps", configMap("x"))
	s.post("/api/v1/configmaps", configMap("x"))
	s.post("/api/v1/configmaps", with(`"name":"b","namespace":"`+s.ns+`"`))
	s.put("/api/v1/configmaps/a", configMap("a"))
	s.post(cms+"/a", configMap("a"))
}

func invalidNames(s *side) {
	quoted := func(v string) string { b, _ := json.Marshal(v); return string(b) }
	for _, name := range []string{"Upper", "a_b", "-a", "a-", "a..b", "a/b", "a%b", ".", "..", strings.Repeat("a", 253), strings.Repeat("a", 254), "a b", "ä", "a\x00b", "a.b", "1"} {
		s.post(s.in("configmaps"), `{"metadata":{"name":`+quoted(name)+`}}`)
	}
	for _, name := range []string{"Upper", "1a", "a.b", "a"} {
		s.post(s.in("serviceaccounts"), `{"metadata":{"name":`+quoted(name)+`}}`)
		s.post("/api/v1/namespaces", `{"metadata":{"name":`+quoted(name+"."+s.ns)+`}}`)
	}
	for _, name := range []string{"Upper:x", "a/b", "a%b", "..", "system:" + s.ns} {
		s.post(s.inGroup("rbac.authorization.k8s.io/v1", "roles"), `{"metadata":{"name":`+quoted(name)+`}}`)
	}
}

func invalidMetadata(s *side) {
	s.create("a")
	for _, meta := range []string{
		`"labels":{"a b":"c"}`, `"labels":{"":"c"}`, `"labels":{"a/b/c":"c"}`, `"labels":{"a":"-"}`, `"labels":{"a":"` + strings.Repeat("x", 64) + `"}`, `"labels":{"` + strings.Repeat("k", 64) + `":"x"}`,
		`"labels":{"A/b":"c"}`, `"annotations":{"a b":"c"}`, `"annotations":{"":"c"}`, `"annotations":{"Up.Per/x":"any thing \n"}`, `"annotations":{"big":"` + strings.Repeat("x", 256<<10) + `"}`,
		`"finalizers":["x"]`, `"finalizers":["a b/c"]`, `"finalizers":["example.org/x","kubernetes"]`, `"generation":-1`,
		`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o"}]`, `"ownerReferences":[{"apiVersion":"v1","kind":"","name":"","uid":""}]`, `"ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"o","uid":"u"}]`,
		`"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"o","uid":"u","controller":true},{"apiVersion":"v1","kind":"B","name":"p","uid":"v","controller":true}]`, `"ownerReferences":[{"apiVersion":"a/b/c","kind":"A","name":"o","uid":"u"}]`,
		`"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"o","uid":"u"},{"apiVersion":"v1","kind":"A","name":"o","uid":"u"}]`, `"labels":{"a":null}`, `"labels":null`, `"labels":{"a":1}`, `"labels":[]`,
	} {
		shown := meta
		if len(shown) > 200 {
			shown = shown[:200]
		}
		s.say("%s", shown)
		s.post(s.in("configmaps"), `{"metadata":{"name":"n`+s.number()+`",`+meta+`}}`)
		s.patch(typeMerge, s.in("configmaps", "a"), `{"metadata":{`+meta+`}}`)
	}
}

func fieldsOfTheServer(s *side) {
	given := `"uid":"11111111-2222-3333-4444-555555555555","creationTimestamp":"2001-02-03T04:05:06Z","deletionTimestamp":"2001-02-03T04:05:06Z","deletionGracePeriodSeconds":5,"generation":7,"selfLink":"/x"`
	a := s.post(s.in("configmaps"), `{"metadata":{"name":"a",`+given+`}}`)
	s.say("own uid %v, own time %v", a.uid() == "11111111-2222-3333-4444-555555555555", strings.HasPrefix(a.text("metadata", "creationTimestamp"), "2001"))
	for _, meta := range []string{`"creationTimestamp":"2001-02-03T04:05:06Z"`, `"creationTimestamp":null`, `"deletionTimestamp":"2001-02-03T04:05:06Z"`, `"generation":9`, `"generation":-9`, `"selfLink":"/y"`, `"deletionGracePeriodSeconds":3`, `"generateName":"x-"`} {
		s.put(s.in("configmaps", "a"), `{"metadata":{"name":"a",`+meta+`}}`)
		s.patch(typeMerge, s.in("configmaps", "a"), `{"metadata":{`+meta+`}}`)
	}
	s.apply(s.in("configmaps", "b")+"?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","creationTimestamp":"2001-02-03T04:05:06Z","generation":9,"selfLink":"/z"}}`)
}

// createdDeleting applies an object that does not exist yet, with a deletion timestamp.
func createdDeleting(s *side) {
	s.apply(s.in("configmaps", "b")+"?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","deletionTimestamp":"2001-02-03T04:05:06Z"}}`)
}
