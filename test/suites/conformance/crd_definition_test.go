package conformance

import (
	"net/http"
	"strings"
)

const anything = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`

func crdScale(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, withSpec(`{"type":"object","properties":{"replicas":{"type":"integer","maximum":9},"x":{"type":"string"}}}`),
		`"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas","labelSelectorPath":".status.selector"}}`))
	scale := func(replicas string) string {
		return `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"` + s.ns + `"},"spec":` + replicas + `}`
	}
	k.post(k.path(), k.object("a", `"spec":{"x":"y"},"status":{"replicas":7}`))
	k.get(k.path("a", "scale"))
	k.patch(typeMerge, k.path("a", "scale"), `{"metadata":{"labels":{"x":"y"}}}`)
	k.put(k.path("a", "scale"), scale(`{"replicas":2}`))
	k.patch(typeMerge, k.path("a", "status"), `{"status":{"replicas":1,"selector":"a=b"}}`)
	k.get(k.path("a", "scale"))
	k.patch(typeMerge, k.path("a", "scale"), `{"spec":{"replicas":3}}`)
	k.patch(typeMerge, k.path("a", "scale"), `{"spec":{"replicas":30}}`)
	k.patch(typeMerge, k.path("a", "scale"), `{"spec":{"replicas":-1}}`)
	k.patch(typeMerge, k.path("a", "scale"), `{"status":{"replicas":9}}`)
	k.put(k.path("a", "scale"), strings.Replace(scale(`{"replicas":4}`), `"name":"a"`, `"name":"a","resourceVersion":"1"`, 1))
	k.apply(k.path("a", "scale")+"?fieldManager=scaler&force=true", scale(`{"replicas":5}`))
	k.get(k.path("none", "scale"))
	k.delete(k.path("a", "scale"))
	k.get(k.path("a"))
}

func crdVersions(s *side) {
	k := s.kind()
	v1 := func(stored bool) string {
		return crdVersion("v1", stored, withSpec(`{"type":"object","properties":{"one":{"type":"string","default":"1"},"both":{"type":"string"}}}`), "")
	}
	v2 := func(stored bool) string {
		return crdVersion("v2", stored, withSpec(`{"type":"object","properties":{"two":{"type":"string","default":"2"},"both":{"type":"string"}}}`), `"deprecated":true`)
	}
	path := func(v string, segments ...string) string { return s.inGroup(k.group+"/"+v, k.plural, segments...) }
	thing := func(v, name string) string {
		return strings.Replace(k.object(name, `"spec":{"one":"x","two":"y","both":"z"}`), k.group+"/v1", k.group+"/"+v, 1)
	}
	k.define(v1(true), v2(false))
	s.eventually(path("v2"), http.StatusOK)
	k.post(path("v1"), thing("v1", "a"))
	k.post(path("v2"), thing("v2", "b"))
	k.get(path("v2"))
	k.get(path("v1"))
	k.get(path("v2"), asTable)
	s.quietly(http.MethodPatch, k.crdPath(), `{"spec":{"versions":[`+v1(false)+`,`+v2(true)+`]}}`, merging)
	k.conditions("Established True")
	s.soon("stored at v2", func() bool {
		a, err := s.do(http.MethodPost, path("v1")+"?dryRun=All", thing("v1", "x"))
		return err == nil && a.field("spec", "one") == nil
	})
	k.get(path("v1", "a"))
	k.get(path("v2", "b"))
	k.post(path("v1"), thing("v1", "c"))
	k.patch(typeMerge, path("v2", "a"), `{"metadata":{"labels":{"x":"y"}}}`)
	k.get(path("v1"))
	k.apply(path("v1", "d")+"?fieldManager=m", thing("v1", "d"))
	k.apply(path("v2", "d")+"?fieldManager=m", thing("v2", "d"))
	s.watch(path("v1") + "?watch=true&resourceVersion=0&timeoutSeconds=1")
	k.delete(path("v2"))
}

func crdStoredVersions(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, anything, ""), crdVersion("v2", false, anything, ""))
	patch := func(path, body string) {
		s.say("%s", body)
		k.try(http.MethodPatch, path, body, merging)
	}
	versions := func(v ...string) string { return `{"spec":{"versions":[` + strings.Join(v, ",") + `]}}` }
	patch(k.crdPath(), versions(crdVersion("v1", false, anything, ""), crdVersion("v2", true, anything, "")))
	patch(k.crdPath(), versions(crdVersion("v2", true, anything, "")))
	patch(k.crdPath(), versions(crdVersion("v1", true, anything, ""), crdVersion("v2", true, anything, "")))
	patch(k.crdPath(), versions(crdVersion("v1", false, anything, ""), crdVersion("v2", false, anything, "")))
	patch(k.crdPath(), `{"spec":{"versions":[]}}`)
	k.conditions("Established True")
	patch(k.crdPath()+"/status", `{"status":{"storedVersions":["v2"]}}`)
	k.conditions("Established True")
	patch(k.crdPath(), versions(crdVersion("v2", true, anything, "")))
	s.eventually(k.path(), http.StatusNotFound)
}

func crdNames(s *side) {
	first, second, third := s.kind(), s.kind(), s.kind()
	second.plural, third.plural = "others", "thirds"
	version := crdVersion("v1", true, anything, "")
	s.quietly(http.MethodPost, crdsPath, first.named(`"plural":"things","singular":"thing","kind":"Thing","shortNames":["th"],"categories":["all","stuff"]`, version))
	first.conditions("Established True")
	s.quietly(http.MethodPost, crdsPath, second.named(`"plural":"others","singular":"thing","kind":"Thing","shortNames":["ot"]`, version))
	second.conditions("NamesAccepted False ListKindConflict")
	first.get(second.path())
	s.quietly(http.MethodPost, crdsPath, third.named(`"plural":"thirds","kind":"Third","shortNames":["th"]`, version))
	third.conditions("NamesAccepted False ShortNamesConflict")
	s.say("the first takes another short name")
	s.quietly(http.MethodPatch, first.crdPath(), `{"spec":{"names":{"shortNames":["ft"]}}}`, merging)
	third.conditions("NamesAccepted True", "Established True")
	first.conditions("NamesAccepted True")
	s.say("the first goes")
	s.quietly(http.MethodDelete, first.crdPath(), "")
	s.eventually(first.crdPath(), http.StatusNotFound)
	second.conditions("NamesAccepted True", "Established True")
	s.eventually(second.path(), http.StatusOK)
	s.say("an established one asks for what is taken")
	s.quietly(http.MethodPatch, third.crdPath(), `{"spec":{"names":{"singular":"thing","shortNames":["ot"]}}}`, merging)
	third.conditions("NamesAccepted False ShortNamesConflict")
	s.eventually(third.path(), http.StatusOK)
	third.get(third.path())
}

func crdChanges(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, anything, ""))
	for _, patch := range []string{`{"scope":"Cluster"}`, `{"group":"other.example.org"}`, `{"names":{"plural":"others"}}`, `{"preserveUnknownFields":true}`, `{"conversion":{"strategy":"Webhook"}}`, `{"conversion":{"strategy":"Other"}}`,
		`{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"http://insecure.example.org"}}}}`, `{"conversion":{"strategy":"None","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://x.example.org"}}}}`, `{"names":{"shortNames":["UPPER"]}}`, `{"names":{"categories":["all"]}}`} {
		s.say("%s", patch)
		k.try(http.MethodPatch, k.crdPath()+"?dryRun=All", `{"spec":`+patch+`}`, merging)
	}
	k.try(http.MethodPut, k.crdPath(), k.crd(crdVersion("v1", true, anything, "")))
	s.say("a watch of what is defined anew")
	w := s.watch(k.path() + "?watch=true&timeoutSeconds=3600")
	s.quietly(http.MethodPost, k.path(), k.object("a", `"spec":{"old":1}`))
	w.take(1)
	k.redefine(k.object("x", `"spec":{"old":1}`), http.StatusBadRequest, crdVersion("v1", true, withSpec(`{"type":"object","properties":{"new":{"type":"integer","default":5}}}`), ""))
	w.rest()
	s.watch(k.path() + "?watch=true&timeoutSeconds=3600&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true").take(1)
}

func crdRefusals(s *side) {
	k := s.kind()
	schema := func(more string) string {
		return k.crd(crdVersion("v1", true, `{"type":"object","properties":{"spec":`+more+`}}`, ""))
	}
	withVersionFields := func(more string) string {
		return k.crd(crdVersion("v1", true, withSpec(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"object","properties":{"c":{"type":"string"}}}}}`), more))
	}
	for _, crd := range []string{
		schema(`{}`), schema(`{"type":"object","items":{"type":"string"}}`), schema(`{"type":"array"}`), schema(`{"type":"object","properties":{"a":{}}}`), schema(`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":{"type":"string"}}`), schema(`{"type":"object","additionalProperties":false}`),
		schema(`{"type":"object","anyOf":[{"type":"object"}]}`), schema(`{"type":"object","anyOf":[{"properties":{"x":{"minimum":1}}}]}`), schema(`{"type":"object","not":{"description":"x"}}`), schema(`{"$ref":"#/x"}`), schema(`{"type":"array","uniqueItems":true,"items":{"type":"string"}}`), schema(`{"type":"object","definitions":{"x":{"type":"string"}}}`), schema(`{"type":"object","patternProperties":{"x":{"type":"string"}}}`), schema(`{"type":"object","dependencies":{"a":["b"]}}`), schema(`{"type":"string","pattern":"("}`),
		schema(`{"type":"string","x-kubernetes-int-or-string":true}`), schema(`{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}`), schema(`{"type":"string","x-kubernetes-preserve-unknown-fields":true}`), schema(`{"type":"object","x-kubernetes-preserve-unknown-fields":false}`), schema(`{"type":"object","x-kubernetes-embedded-resource":true}`), schema(`{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"metadata":{"type":"object","properties":{"name":{"type":"string"}}}}}`),
		schema(`{"type":"array","items":{"type":"object"},"x-kubernetes-list-type":"map"}`), schema(`{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["b"]}`), schema(`{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"]}`), schema(`{"type":"array","items":{"type":"object","properties":{"a":{"type":"object"}},"required":["a"]},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","a"]}`), schema(`{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}},"x-kubernetes-list-type":"set"}`), schema(`{"type":"array","items":{"type":"string","nullable":true},"x-kubernetes-list-type":"set"}`), schema(`{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"bag"}`), schema(`{"type":"object","x-kubernetes-map-type":"odd"}`),
		schema(`{"type":"object","default":{"a":1}}`), schema(`{"type":"object","properties":{"a":{"type":"integer","default":"x"}}}`), schema(`{"type":"object","properties":{"a":{"type":"integer","minimum":5,"default":1}}}`), schema(`{"type":"object","properties":{"a":{"type":"object","default":{"b":1},"properties":{"b":{"type":"string"}}}}}`), schema(`{"type":"object","nullable":false,"default":null}`), schema(`{"type":"integer","format":"odd"}`), schema(`{"type":"string","enum":[]}`), schema(`{"type":"string","enum":[1]}`), schema(`{"type":"object","required":["nothing"]}`), schema(`{"type":"object","properties":{"a":{"type":"string","default":"x"}},"anyOf":[{"properties":{"a":{"default":"y"}}}]}`),
		k.crd(crdVersion("v1", true, `{"type":"object","default":{}}`, "")), k.crd(crdVersion("v1", true, `{"type":"array","items":{"type":"string"}}`, "")), k.crd(crdVersion("v1", true, `{"type":"object","nullable":true}`, "")), k.crd(crdVersion("v1", true, `{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","pattern":"^a"},"labels":{"type":"object"}}}}}`, "")), k.crd(crdVersion("v1", true, `{"type":"object","properties":{"kind":{"type":"integer"},"apiVersion":{"type":"string","enum":["x"]}}}`, "")),
		withVersionFields(`"additionalPrinterColumns":[{"name":"","type":"odd","jsonPath":"x"}]`), withVersionFields(`"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".spec[?(@"},{"name":"A","type":"date","format":"odd","jsonPath":".x","priority":-1}]`), withVersionFields(`"selectableFields":[{"jsonPath":".spec.none"}]`), withVersionFields(`"selectableFields":[{"jsonPath":".spec.b"}]`), withVersionFields(`"selectableFields":[{"jsonPath":".metadata.name"}]`), withVersionFields(`"selectableFields":[{"jsonPath":".spec.a"},{"jsonPath":".spec.a"}]`), withVersionFields(`"selectableFields":[{"jsonPath":"spec.a"}]`), withVersionFields(`"selectableFields":[{"jsonPath":".spec.b.c"}]`),
		withVersionFields(`"subresources":{"scale":{}}`), withVersionFields(`"subresources":{"scale":{"specReplicasPath":".replicas","statusReplicasPath":".spec.x","labelSelectorPath":"x"}}`), withVersionFields(`"deprecationWarning":"x"`), withVersionFields(`"deprecated":true,"deprecationWarning":""`),
		k.crd(`{"name":"v1","served":true,"storage":true}`), k.crd(crdVersion("v1", true, anything, ""), crdVersion("v1", false, anything, "")), k.crd(crdVersion("V1", true, anything, "")), k.named(`"plural":"things"`, crdVersion("v1", true, anything, "")), k.named(`"plural":"things","kind":"Thing","listKind":"Thing"`, crdVersion("v1", true, anything, "")), k.named(`"plural":"things","kind":"Thing","singular":"THING","shortNames":["a b"],"categories":["A"]`, crdVersion("v1", true, anything, "")),
	} {
		_, shown, _ := strings.Cut(crd, `"names":`)
		s.say("%s", shown)
		k.try(http.MethodPost, crdsPath+"?dryRun=All", crd)
	}
	protected := strings.NewReplacer(k.group, "odd.k8s.io")
	for _, annotation := range []string{`{}`, `{"api-approved.kubernetes.io":"x"}`, `{"api-approved.kubernetes.io":"https://github.com/kubernetes/kubernetes/pull/1"}`, `{"api-approved.kubernetes.io":"unapproved, an experiment"}`} {
		crd := strings.Replace(protected.Replace(k.crd(crdVersion("v1", true, anything, ""))), `"metadata":{`, `"metadata":{"annotations":`+annotation+`,`, 1)
		s.say("%s", annotation)
		k.try(http.MethodPost, crdsPath+"?dryRun=All", crd)
	}
}
