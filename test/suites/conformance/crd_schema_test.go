package conformance

import "net/http"

func crdDefaults(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, withSpec(`{"type":"object","default":{"made":"by default"},"properties":{
"made":{"type":"string"},"size":{"type":"integer","default":3},"nothing":{"type":"string","nullable":true,"default":"x"},"never":{"type":"string","default":"y"},
"nested":{"type":"object","properties":{"deep":{"type":"object","default":{},"properties":{"deeper":{"type":"boolean","default":true}}}}},
"list":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer","default":7}}}},
"map":{"type":"object","additionalProperties":{"type":"object","properties":{"on":{"type":"boolean","default":false}}}},
"either":{"x-kubernetes-int-or-string":true,"default":"80%"},"time":{"type":"string","format":"date-time"}}}`), `"subresources":{"status":{}}`))
	for _, spec := range []string{``, `"spec":{}`, `"spec":{"nested":{}}`, `"spec":{"nested":{"deep":{}},"list":[{},{"k":"a"},{"v":null}],"map":{"a":{},"b":{"on":true},"c":null}}`,
		`"spec":{"nothing":null,"never":null,"size":null}`, `"spec":{"either":8}`, `"spec":{"either":1.5}`, `"spec":null`} {
		s.say("%s", spec)
		k.post(k.path()+"?dryRun=All", k.object("a", spec))
	}
	k.post(k.path(), k.object("b", `"spec":{"list":[{"k":"a"}]}`))
	k.patch(typeMerge, k.path("b"), `{"spec":{"size":null,"list":[{"k":"b"}]}}`)
	k.patch(typeJSONPatch, k.path("b"), `[{"op":"remove","path":"/spec/size"},{"op":"add","path":"/spec/map","value":{"x":{}}}]`)
	k.apply(k.path("c")+"?fieldManager=m", k.object("c", `"spec":{"map":{"x":{}}}`))
	k.apply(k.path("c")+"?fieldManager=m", k.object("c", `"spec":{"map":{"y":{}}}`))
	k.patch(typeMerge, k.path("b", "status"), `{"status":{"a":1}}`)
}

// crdDefaultsOfOldObjects shows that every kind of read applies the present schema to stored
// objects, which do not change until they are written.
func crdDefaultsOfOldObjects(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, withSpec(`{"type":"object","properties":{"gone":{"type":"string"},"list":{"type":"array","items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}`), ""))
	for _, name := range []string{"a", "b"} {
		s.quietly(http.MethodPost, k.path(), k.object(name, `"spec":{"gone":"soon","list":[{"k":"x","gone":1}]}`))
	}
	const probe = `"spec":{"colour":"red"}`
	k.redefine(k.object("x", probe), http.StatusCreated, crdVersion("v1", true,
		withSpec(`{"type":"object","properties":{"colour":{"type":"string","default":"blue"},"list":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer","default":7}}}}}}`),
		`"selectableFields":[{"jsonPath":".spec.colour"}],"additionalPrinterColumns":[{"name":"Colour","type":"string","jsonPath":".spec.colour"}]`))
	k.get(k.path("a"))
	k.get(k.path())
	k.get(k.path("a"), "Accept: application/yaml")
	k.get(k.path(), asTable)
	k.get(k.path() + "?fieldSelector=spec.colour=blue")
	k.get(k.path() + "?fieldSelector=spec.colour=red")
	s.watch(k.path() + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=3600").take(2)
	k.patch(typeMerge, k.path("a"), `{"metadata":{"labels":{"x":"y"}}}`)
	k.patch(typeMerge, k.path("a"), `{"spec":{"colour":"green"}}`)
	k.apply(k.path("b")+"?fieldManager=m", k.object("b", `"spec":{"colour":"blue"}`))
	k.get(k.path() + "?fieldSelector=spec.colour=blue")
	k.delete(k.path() + "?fieldSelector=spec.colour=blue")
	k.delete(k.path("a"))
}

func crdPruning(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, `{"type":"object","properties":{"spec":{"type":"object","properties":{
"known":{"type":"string"},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"strict":{"type":"object","properties":{"a":{"type":"integer"}}}}},
"embedded":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object","properties":{"a":{"type":"integer"}}}}},
"any":{"x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"type":"object"},
"map":{"type":"object","additionalProperties":{"type":"object","properties":{"a":{"type":"integer"}}}}}}}}`, ""))
	for _, spec := range []string{`"spec":{"known":"x","unknown":1},"top":1`, `"spec":{"free":{"a":{"b":[1,null]},"strict":{"a":1,"b":2}}}`,
		`"spec":{"embedded":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","labels":{"a":"b"},"unknown":1},"spec":{"a":1,"b":2},"more":1}}`,
		`"spec":{"embedded":{"metadata":{"name":"x"}}}`, `"spec":{"embedded":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"UPPER"}}}`, `"spec":{"embedded":{"apiVersion":"v1","kind":"Pod","metadata":{"name":1}}}`,
		`"spec":{"any":{"apiVersion":"a/b/c","kind":"","x":{"y":1}}}`, `"spec":{"any":{"apiVersion":"v1","kind":"Pod","x":{"y":1}}}`, `"spec":{"map":{"x":{"a":1,"b":2}}}`,
		`"metadata":{"labels":{"a":1}}`} {
		s.say("%s", spec)
		k.post(k.path()+"?dryRun=All", k.object("a", spec))
		k.post(k.path()+"?dryRun=All&fieldValidation=Strict", k.object("a", spec))
	}
}

func crdValues(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, withSpec(`{"type":"object","properties":{
"string":{"type":"string","minLength":2,"maxLength":3,"pattern":"^a"},"number":{"type":"number","multipleOf":0.5,"exclusiveMinimum":true,"minimum":1},"integer":{"type":"integer","format":"int32"},"long":{"type":"integer","format":"int64"},
"date":{"type":"string","format":"date"},"time":{"type":"string","format":"date-time"},"duration":{"type":"string","format":"duration"},"mail":{"type":"string","format":"email"},"address":{"type":"string","format":"ipv4"},"bytes":{"type":"string","format":"byte"},"uuid":{"type":"string","format":"uuid"},"label":{"type":"string","format":"k8s-short-name"},"odd":{"type":"string","format":"odd"},
"enum":{"type":"string","enum":["a","b"]},"null":{"type":"object","nullable":true},"either":{"x-kubernetes-int-or-string":true,"maximum":5},
"one":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"oneOf":[{"required":["a"]},{"required":["b"]}]},"any":{"type":"integer","anyOf":[{"minimum":10},{"maximum":1}]},"all":{"type":"integer","allOf":[{"minimum":3},{"multipleOf":2}]},"not":{"type":"string","not":{"pattern":"x"}},
"array":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string"}},"object":{"type":"object","minProperties":1,"maxProperties":2,"additionalProperties":{"type":"integer"}},
"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"integer"}},"atomic":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"integer"}},
"listmap":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"integer","default":1},"c":{"type":"string"}}}}}}`), ""))
	for _, spec := range []string{`{"string":"a"}`, `{"string":"abcd"}`, `{"string":"bc"}`, `{"string":1}`, `{"number":1}`, `{"number":1.25}`, `{"number":"1"}`, `{"integer":3000000000}`, `{"integer":1.0}`, `{"integer":1.5}`, `{"long":9223372036854775807}`, `{"long":9223372036854775808}`,
		`{"date":"2026-13-01"}`, `{"time":"yesterday"}`, `{"time":"2026-01-02T03:04:05Z"}`, `{"duration":"5 apples"}`, `{"mail":"x"}`, `{"address":"300.1.1.1"}`, `{"bytes":"%"}`, `{"uuid":"x"}`, `{"label":"UPPER"}`, `{"odd":"anything"}`, `{"enum":"c"}`, `{"null":null}`, `{"string":null}`, `{"either":"x"}`, `{"either":6}`, `{"either":true}`, `{"either":[]}`,
		`{"one":{}}`, `{"one":{"a":"1","b":"2"}}`, `{"one":{"a":"1"}}`, `{"any":5}`, `{"any":11}`, `{"all":1}`, `{"all":4}`, `{"not":"axa"}`, `{"array":[]}`, `{"array":["a","b","c"]}`, `{"array":[1]}`, `{"array":{}}`, `{"object":{}}`, `{"object":{"a":1,"b":2,"c":3}}`, `{"object":{"a":"x"}}`, `{"object":[]}`,
		`{"set":[1,1]}`, `{"atomic":[1,1]}`, `{"listmap":[{"a":"x"},{"a":"x","b":1}]}`, `{"listmap":[{"a":"x"},{"a":"x","b":2}]}`, `{"listmap":[{"b":2}]}`} {
		s.say("%s", spec)
		k.post(k.path()+"?dryRun=All", k.object("a", `"spec":`+spec))
	}
}
