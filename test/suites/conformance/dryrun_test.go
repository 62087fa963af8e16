package conformance

import (
	"net/http"
	"strings"
)

func dryRun(s *side) {
	cms := s.in("configmaps")
	a := s.create("a", "x=y")
	dry := s.post(cms+"?dryRun=All", configMap("b"))
	s.say("revision of what was not made: %q", dry.rv())
	s.post(cms+"?dryRun=All", configMap("a"))
	generated := s.quietly("POST", cms+"?dryRun=All", `{"metadata":{"generateName":"g-"}}`)
	s.say("a name is generated: %v", len(generated.text("metadata", "name")) == len("g-12345"))
	s.put(cms+"/a?dryRun=All", configMap("a", "x=z"))
	s.put(cms+"/none?dryRun=All", configMap("none"))
	s.patch(typeMerge, cms+"/a?dryRun=All", `{"data":{"k":"w"}}`)
	s.patch(typeJSONPatch, cms+"/a?dryRun=All", `[{"op":"remove","path":"/data/k"}]`)
	s.patch(typeStrategic, cms+"/a?dryRun=All", `{"metadata":{"labels":{"x":null}}}`)
	s.apply(cms+"/a?dryRun=All&fieldManager=m&force=true", configMap("a", "x=applied"))
	s.apply(cms+"/new?dryRun=All&fieldManager=m", configMap("new"))
	s.delete(cms+"/a?dryRun=All", "")
	s.delete(cms+"/a", `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`)
	s.delete(cms+"?dryRun=All", "")
	after := s.get(cms)
	s.say("nothing was changed: %v", after.field("items") != nil && strings.Contains(string(after.body), `"`+a.rv()+`"`))
	s.get(cms + "/b")
}

func badDryRun(s *side) {
	cms := s.in("configmaps")
	s.create("a")
	for _, value := range []string{"all", "None", "", "All&dryRun=All", "All&dryRun=x"} {
		s.post(cms+"?dryRun="+value, configMap("b"))
		s.quietly(http.MethodGet, cms, "")
	}
	s.delete(cms+"/a?dryRun=x", "")
	s.delete(cms+"/a?dryRun=All", `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["x"]}`)
	s.patch(typeMerge, cms+"/a?dryRun=x", `{}`)
}

func dryRunOfCustomResources(s *side) {
	group := s.ns + ".example.org"
	s.define(group, `{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer","default":3,"minimum":1}}}}}`)
	path := s.inGroup(group+"/v1", "widgets")
	widget := func(spec string) string {
		return `{"apiVersion":"` + group + `/v1","kind":"Widget","metadata":{"name":"w"},"spec":` + spec + `}`
	}
	s.post(path+"?dryRun=All", widget(`{}`))
	s.post(path+"?dryRun=All", widget(`{"size":0}`))
	s.get(path + "/w")
	s.post(path, widget(`{}`))
	s.patch(typeMerge, path+"/w?dryRun=All", `{"spec":{"size":5}}`)
	s.patch(typeMerge, path+"/w/status?dryRun=All", `{"status":{}}`)
	s.apply(path+"/w?dryRun=All&fieldManager=m", widget(`{"size":4}`))
	s.delete(path+"/w?dryRun=All", "")
	s.get(path + "/w")
}
