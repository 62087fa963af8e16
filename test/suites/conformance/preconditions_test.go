package conformance

import "net/http"

func deletePreconditions(s *side) {
	cms := s.in("configmaps")
	a := s.create("a")
	b := s.update("a", "x=y")
	options := func(p string) string {
		return `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{` + p + `}}`
	}
	s.delete(cms+"/a", options(`"uid":"11111111-2222-3333-4444-555555555555"`))
	s.delete(cms+"/a", options(`"resourceVersion":"`+a.rv()+`"`))
	s.delete(cms+"/a", options(`"resourceVersion":"x"`))
	s.delete(cms+"/a", options(`"uid":""`))
	s.delete(cms+"/none", options(`"uid":"`+a.uid()+`"`))
	s.delete(cms, options(`"uid":"`+a.uid()+`"`))
	c := s.create("a")
	s.say("made again: %v", c.uid() != a.uid())
	s.delete(cms+"/a", options(`"uid":"`+a.uid()+`","resourceVersion":"`+b.rv()+`"`))
	s.delete(cms+"/a", options(`"uid":"`+c.uid()+`","resourceVersion":"`+c.rv()+`"`))
	s.delete(cms+"/a", "")
}

func updatePreconditions(s *side) {
	cms := s.in("configmaps")
	a := s.create("a")
	s.update("a", "x=y")
	with := func(meta string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a",` + meta + `},"data":{"k":"w"}}`
	}
	s.put(cms+"/a", with(`"resourceVersion":"`+a.rv()+`"`))
	s.put(cms+"/a", with(`"resourceVersion":"999999999"`))
	s.put(cms+"/a", with(`"resourceVersion":"abc"`))
	s.put(cms+"/a", with(`"resourceVersion":"0"`))
	s.put(cms+"/a", with(`"uid":"11111111-2222-3333-4444-555555555555"`))
	s.put(cms+"/a", with(`"uid":"`+a.uid()+`"`))
	for _, contentType := range []string{typeMerge, typeStrategic} {
		s.patch(contentType, cms+"/a", `{"metadata":{"resourceVersion":"`+a.rv()+`"},"data":{"k":"x"}}`)
		s.patch(contentType, cms+"/a", `{"metadata":{"uid":"11111111-2222-3333-4444-555555555555"},"data":{"k":"x"}}`)
		s.patch(contentType, cms+"/a", `{"metadata":{"resourceVersion":""},"data":{"k":"x`+s.number()+`"}}`)
		s.patch(contentType, cms+"/a", `{"metadata":{"resourceVersion":null},"data":{"k":"x`+s.number()+`"}}`)
	}
	s.patch(typeJSONPatch, cms+"/a", `[{"op":"test","path":"/metadata/resourceVersion","value":"1"},{"op":"add","path":"/data/x","value":"y"}]`)
	s.patch(typeJSONPatch, cms+"/a", `[{"op":"replace","path":"/metadata/resourceVersion","value":"`+a.rv()+`"},{"op":"add","path":"/data/x","value":"y"}]`)
	s.put(cms+"/none", with(`"resourceVersion":"`+a.rv()+`"`))
	s.put(cms+"/none", configMap("none"))
	s.post(cms, with(`"resourceVersion":"5"`))
	s.put("/apis/coordination.k8s.io/v1/namespaces/"+s.ns+"/leases/l", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l","resourceVersion":"5"}}`)
	s.put("/apis/coordination.k8s.io/v1/namespaces/"+s.ns+"/leases/l", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l","uid":"11111111-2222-3333-4444-555555555555"}}`)
	s.put("/apis/coordination.k8s.io/v1/namespaces/"+s.ns+"/leases/l", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}`)
	s.put("/apis/coordination.k8s.io/v1/namespaces/"+s.ns+"/leases/l", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}`)
	s.quietly(http.MethodGet, cms, "")
}
