package conformance

func customResourceRules(s *side) {
	group := s.ns + ".example.org"
	s.define(group, `{"type":"object","required":["spec"],"properties":{"spec":{"type":"object","required":["size"],"properties":{
"size":{"type":"integer","minimum":1,"maximum":10},"colour":{"type":"string","enum":["red","blue"],"default":"red"},"name":{"type":"string","maxLength":3,"pattern":"^[a-z]+$"},
"items":{"type":"array","maxItems":2,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"integer","default":7}}}},
"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"port":{"x-kubernetes-int-or-string":true},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"fixed":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"fixed is fixed"}]}},
"x-kubernetes-validations":[{"rule":"self.size < 5 || self.colour == 'blue'","message":"large ones are blue","reason":"FieldValueForbidden","fieldPath":".colour"}]},"status":{"type":"object","properties":{"n":{"type":"integer"}}}}}`)
	path := s.inGroup(group+"/v1", "widgets")
	widget := func(name, rest string) string {
		return `{"apiVersion":"` + group + `/v1","kind":"Widget","metadata":{"name":"` + name + `"}` + rest + `}`
	}
	for _, spec := range []string{``, `,"spec":{}`, `,"spec":{"size":0}`, `,"spec":{"size":11}`, `,"spec":{"size":"1"}`, `,"spec":{"size":1.5}`, `,"spec":{"size":1,"colour":"green"}`, `,"spec":{"size":1,"name":"LONG"}`, `,"spec":{"size":7}`, `,"spec":[]`, `,"spec":null`,
		`,"spec":{"size":1,"items":[{"k":"a"},{"k":"a"}]}`, `,"spec":{"size":1,"items":[{"v":1}]}`, `,"spec":{"size":1,"items":[{"k":"a"},{"k":"b"},{"k":"c"}]}`, `,"spec":{"size":1,"tags":["x","x"]}`, `,"spec":{"size":1,"port":true}`, `,"spec":{"size":1,"unknown":1}`, `,"spec":{"size":1,"colour":null}`} {
		s.say("%s", spec)
		s.post(path, widget("w"+s.number(), spec))
	}
	s.post(path, widget("ok", `,"spec":{"size":7,"colour":"blue","fixed":"x","items":[{"k":"a"}],"tags":["x"],"port":"http","free":{"a":{"b":1}}},"status":{"n":1}`))
	s.patch(typeMerge, path+"/ok", `{"spec":{"fixed":"y"}}`)
	s.patch(typeMerge, path+"/ok", `{"spec":{"size":null}}`)
	s.patch(typeMerge, path+"/ok/status", `{"status":{"n":"x"}}`)
	s.patch(typeMerge, path+"/ok/status", `{"status":{"n":2},"spec":{"size":1}}`)
	s.apply(path+"/ok?fieldManager=m", widget("ok", `,"spec":{"size":7,"items":[{"k":"b","v":1}],"tags":["y"]}`))
	s.get(path)
}

func customResourceVersions(s *side) {
	group := s.ns + ".example.org"
	const open = `"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}`
	s.defineVersions(group, `[{"name":"v1","served":true,"storage":true,`+open+`},{"name":"v1beta1","served":true,"storage":false,"deprecated":true,"deprecationWarning":"use v1",`+open+`},{"name":"v1alpha1","served":false,"storage":false,`+open+`}]`)
	s.eventually(s.inGroup(group+"/v1beta1", "widgets"), 200)
	s.eventually(s.inGroup(group+"/v1", "widgets"), 200)
	path := func(v string, segments ...string) string { return s.inGroup(group+"/"+v, "widgets", segments...) }
	widget := func(v, name string) string {
		return `{"apiVersion":"` + group + `/` + v + `","kind":"Widget","metadata":{"name":"` + name + `"},"spec":{"a":1}}`
	}
	s.post(path("v1beta1"), widget("v1beta1", "b"))
	s.get(path("v1", "b"))
	s.post(path("v1"), widget("v1beta1", "c"))
	s.patch(typeMerge, path("v1", "b"), `{"spec":{"a":2}}`)
	s.get(path("v1beta1"))
	s.get(path("v1alpha1"))
	s.apply(path("v1beta1", "b")+"?fieldManager=m&force=true", widget("v1beta1", "b"))
	s.watch(path("v1") + "?watch=true").take(1)
	s.get("/apis/" + group)
}

func customResourceSelectors(s *side) {
	group := s.ns + ".example.org"
	s.defineVersions(group, `[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.colour"}],"additionalPrinterColumns":[{"name":"Colour","type":"string","jsonPath":".spec.colour","description":"of it"},{"name":"Size","type":"integer","jsonPath":".spec.size","priority":1},{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"colour":{"type":"string"},"size":{"type":"integer"}}}}}}}]`)
	path := s.inGroup(group+"/v1", "widgets")
	s.eventually(path, 200)
	for _, colour := range []string{"red", "blue"} {
		s.quietly("POST", path, `{"apiVersion":"`+group+`/v1","kind":"Widget","metadata":{"name":"`+colour+`"},"spec":{"colour":"`+colour+`","size":3}}`)
	}
	s.get(path + "?fieldSelector=spec.colour=red")
	s.get(path + "?fieldSelector=spec.colour!=red")
	s.get(path + "?fieldSelector=spec.size=3")
	s.get(path + "?fieldSelector=metadata.name=red")
	s.get(path, asTable)
	s.get(path+"/red?includeObject=None", asTable)
	w := s.watch(path + "?watch=true&fieldSelector=spec.colour=red")
	w.take(1)
	s.patch(typeMerge, path+"/red", `{"spec":{"colour":"blue"}}`)
	w.take(1)
	s.delete(path+"?fieldSelector=spec.colour=blue", "")
}

func badDefinitions(s *side) {
	group := s.ns + ".example.org"
	crd := func(name, spec string) string {
		return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
	}
	spec := func(schema string) string {
		return `{"group":"` + group + `","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":` + schema + `}}]}`
	}
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
	for _, c := range []string{
		crd("widgets."+group, `{}`), crd("other."+group, spec(`{"type":"object"}`)), crd("widgets."+group, spec(`{}`)), crd("widgets."+group, spec(`{"type":"object","properties":{"spec":{"type":"nonsense"}}}`)),
		crd("widgets."+group, spec(`{"type":"object","properties":{"metadata":{"type":"object","properties":{"labels":{"type":"object"}}}}}`)), crd("widgets."+group, spec(`{"type":"object","properties":{"a":{"type":"integer","default":"x"}}}`)),
		crd("widgets."+group, spec(`{"type":"object","x-kubernetes-validations":[{"rule":"self.nothing == 1"}]}`)), crd("widgets."+group, spec(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"string","x-kubernetes-validations":[{"rule":"self.matches('a')"}]}}}}}}`)),
		crd("widgets."+group, `{"group":"`+group+`","scope":"Sideways","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":false}]}`),
		crd("widgets."+group, `{"group":"`+group+`","scope":"Namespaced","preserveUnknownFields":true,"names":{"plural":"Widgets","kind":"wid get"},"versions":[{"name":"V1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}`),
	} {
		s.post(path, c)
	}
}
