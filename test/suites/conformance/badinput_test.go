package conformance

import (
	"strings"
)

func oversizeBodies(s *side) {
	cms := s.in("configmaps")
	s.create("a")
	big := func(name string, n int) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"k":"` + strings.Repeat("x", n) + `"}}`
	}
	for _, n := range []int{900 << 10, 3<<20 + 1, 4 << 20} {
		s.say("%d bytes", n)
		s.call("POST", cms, big("b"+s.number(), n), "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
		s.put(cms+"/a", big("a", n), "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
		s.patch(typeMerge, cms+"/a", `{"data":{"k":"`+strings.Repeat("x", n)+`"}}`, "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
		s.apply(cms+"/a?fieldManager=m&force=true", big("a", n), "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
		s.delete(cms+"/none", big("none", n))
	}
	s.post(cms, `{"metadata":{"name":"spaces"}}`+strings.Repeat(" ", 3<<20))
}

// tooLarge is above what ConfigMaps may be, and below what a body may be.
func tooLarge(s *side) {
	for _, n := range []int{1200 << 10, 1600 << 10} {
		a, err := s.do("POST", s.in("replicationcontrollers"), `{"metadata":{"name":"b`+s.number()+`"},"spec":{"replicas":0,"selector":{"a":"b"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x","args":["`+strings.Repeat("x", n)+`"]}]}}}}`)
		s.say("a template with %d bytes: %v %d %s %s", n, err, a.code, a.text("reason"), a.text("message"))
		a, err = s.do("POST", s.in("configmaps"), `{"metadata":{"name":"b`+s.number()+`"},"data":{"x":"`+strings.Repeat("x", n)+`"}}`)
		s.say("a ConfigMap with %d bytes: %v %d %s", n, err, a.code, a.text("reason"))
	}
}

func deepJSON(s *side) {
	s.create("a")
	for _, depth := range []int{100, 11_000, 200_000} {
		s.say("depth %d", depth)
		object := `{"metadata":{"name":"d` + s.number() + `"},"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
		s.post(s.in("configmaps"), object)
		s.patch(typeMerge, s.in("configmaps", "a"), `{"x":`+strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)+`}`)
		s.patch(typeJSONPatch, s.in("configmaps", "a"), `[{"op":"add","path":"/x","value":`+strings.Repeat("[", depth)+strings.Repeat("]", depth)+`}]`)
	}
	s.apply(s.in("configmaps", "a")+"?fieldManager=m", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: "+strings.Repeat("[", 11_000)+strings.Repeat("]", 11_000))
	s.post(s.in("configmaps"), "x: "+strings.Repeat("[", 11_000)+strings.Repeat("]", 11_000), "Content-Type: "+typeYAML)
	s.post(s.in("configmaps"), "a: &a [x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", "Content-Type: "+typeYAML)
}

func deepCustomResources(s *side) {
	group := s.ns + ".example.org"
	s.define(group, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)
	for _, depth := range []int{50, 11_000} {
		s.say("depth %d", depth)
		s.post(s.inGroup(group+"/v1", "widgets"), `{"apiVersion":"`+group+`/v1","kind":"Widget","metadata":{"name":"d`+s.number()+`"},"spec":`+strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)+`}`, asPartial)
	}
}

func oddBodies(s *side) {
	cms := s.in("configmaps")
	s.create("a")
	bodies := []string{
		`null`, `[]`, `[{}]`, `5`, `"x"`, `true`, `{`, `{"metadata":`, `}`, ` `, `{}`, "\ufeff" + configMap("bom"), configMap("trailing") + "x", configMap("two") + configMap("three"), "\x00", "\xff\xfe",
		`{"metadata":{"name":"utf` + "\xff" + `"}}`, `{"metadata":{"name":"utf8"},"data":{"k":"` + "\xc3\x28" + `"}}`, `{"metadata":{"name":"surrogate"},"data":{"k":"\ud800"}}`, `{"metadata":{"name":"nul"},"data":{"k":"\u0000"}}`,
		`{"metadata":{"name":"num"},"data":{"k":1}}`, `{"metadata":{"name":1}}`, `{"metadata":[]}`, `{"metadata":"x"}`, `{"metadata":null}`, `{"kind":5,"metadata":{"name":"x"}}`, `{"apiVersion":{},"metadata":{"name":"x"}}`,
		`{"metadata":{"name":"x","creationTimestamp":"yesterday"}}`, `{"metadata":{"name":"x","generation":1.5}}`, `{"metadata":{"name":"x","generation":99999999999999999999}}`, `{"metadata":{"name":"x","labels":"y"}}`, `{'metadata':{'name':'x'}}`, `{"metadata":{"name":"comment"}} // x`,
		`{"kind":"List","apiVersion":"v1","items":[]}`, `{"kind":"ConfigMapList","apiVersion":"v1","items":[]}`, `{"kind":"Status","apiVersion":"v1"}`, "<xml/>", "metadata:\n  name: yaml\n",
	}
	for _, body := range bodies {
		s.say("body %q", body)
		s.post(cms, body)
		s.put(cms+"/a", body)
	}
	for _, body := range []string{"", "x", "- a", "metadata: {name: y1}", "metadata: {name: y2}\n---\nmetadata: {name: y3}", "\t", "metadata: !!binary x", "metadata: {name: &a y4}\ndata: {k: *a}", "? {a: b}\n: c", "{1: 2}", "metadata:\n  name: y5\n  name: y6\n", "on: off"} {
		s.say("yaml %q", body)
		s.post(cms, body, "Content-Type: "+typeYAML)
	}
}

func malformedProtobuf(s *side) {
	for _, body := range []string{"k8s\x00", "k8s", "k8s\x00\x0a\x04", "k8s\x00garbage garbage", "k8s\x01x", "x", "k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x02\x0a\x00\x1a\x00\x22\x00", "k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x02\x0a\xff", `{"metadata":{"name":"x"}}`} {
		s.say("protobuf %q", body)
		s.post(s.in("configmaps"), body, "Content-Type: "+typeProtobuf)
	}
	s.delete(s.in("configmaps", "none"), "k8s\x00garbage", "Content-Type: "+typeProtobuf)
}

func oddPaths(s *side) {
	s.create("a")
	for _, path := range []string{
		s.in("configmaps", "a%00"), s.in("configmaps", "%00"), s.in("configmaps", "a%2Fb"), s.in("configmaps", "%2e%2e"), s.in("configmaps", "."), s.in("configmaps", ".."), s.in("configmaps", "a%2F"), s.in("configmaps", "%2Fa"),
		s.in("configmaps", "%2e%2e%2fsecrets"), s.in("configmaps", "a%20b"), s.in("configmaps", "%ff"), s.in("configmaps", "a%25"), s.in("configmaps", "ä"), s.in("configmaps", "a;b"), s.in("configmaps", "A"), s.in("configmaps", ""), s.in("configmaps") + "//a",
		"/api/v1/namespaces/a%2Fb/configmaps", "/api/v1/namespaces/%00/configmaps/a", "/api/v1/namespaces/A/configmaps",
		s.in("configmaps", strings.Repeat("x", 1000)), s.in("configmaps") + "?labelSelector=" + strings.Repeat("x", 10000), s.in("configmaps") + "?fieldManager=%zz", s.in("configmaps") + "?a;b=c",
	} {
		s.get(path)
	}
	for _, path := range []string{s.in("configmaps", "a%00"), s.in("configmaps", "a%2Fb"), s.in("configmaps", "%2e%2e"), s.in("configmaps", "A"), "/api/v1/namespaces/a%2Fb/configmaps/x"} {
		s.put(path, configMap("x"))
		s.delete(path, "")
		s.patch(typeMerge, path, `{}`)
		s.apply(path+"?fieldManager=m", configMap("x"))
	}
}

func hugeURLs(s *side) {
	s.create("a")
	for _, n := range []int{10_000, 100_000, 900_000, 2_000_000} {
		a, err := s.do("GET", s.in("configmaps")+"?labelSelector=a%20in%20("+strings.Repeat("x,", n/2)+"x)", "")
		s.say("%d bytes of selector: %v %d", n, err != nil, a.code)
	}
}

func unknownPaths(s *side) {
	for _, path := range []string{
		"/nothing", "/api/v2", "/api/v2/configmaps", "/apis/nothing.example.org", "/apis/nothing.example.org/v1", "/apis/nothing.example.org/v1/things", "/apis/apps/v9", "/apis/apps/v9/deployments", "/apis/apps/v1/nothings", s.in("nothings"), s.in("nothings", "x"),
		s.in("configmaps", "a", "nothing"), s.in("configmaps", "a", "status"), s.in("configmaps", "a", "b", "c"), "/api/v1/nothings", "/api/v1/namespaces/" + s.ns + "/namespaces", "/api/v1/namespaces/" + s.ns + "/nodes", "/api/v1/namespaces/" + s.ns + "/nodes/x",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/" + s.ns + "/clusterroles", "/apis/apps/v1/deployments/x", "/api/v1/configmaps/x", "/api/v1/proxy", "/openapi/v9", "/openapi/v3/apis/nothing", "/apis/apps/v1/namespaces", "/swagger.json", "/ui", "/api/v1/watch", "/api/v1/watch/nothings",
	} {
		a, err := s.do("GET", path, "")
		s.say("%s: %v %d", path, err, a.code)
	}
	// Errors for missing resources.
	s.get(s.in("nothings"))
	s.get("/apis/nothing.example.org/v1/things")
	s.get("/apis/apps/v9/deployments")
	s.get(s.in("configmaps", "a", "status"))
	s.post("/apis/nothing.example.org/v1/things", `{}`)
	s.post(s.in("nothings"), `{}`)
	s.post("/api/v1", `{}`)
}

func methods(s *side) {
	s.create("a")
	for _, method := range []string{"OPTIONS", "HEAD", "TRACE", "PUT", "PATCH", "FOO"} {
		for _, path := range []string{s.in("configmaps"), s.in("configmaps", "a"), "/api/v1", "/version"} {
			a, err := s.do(method, path, "")
			s.say("%s %s: %v %d %s", method, path, err, a.code, a.text("reason"))
		}
	}
	s.call("HEAD", s.in("configmaps", "none"), "")
	s.post(s.in("configmaps", "a"), configMap("a"))
	s.delete("/api/v1", "")
	s.post("/version", "{}")
}
