package conformance

func finalizers(s *side) {
	cms := s.in("configmaps")
	start := s.quietly("POST", cms, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["example.org/one","example.org/two"]}}`)
	w := s.watch(cms + "?watch=true&resourceVersion=" + start.rv())
	first := s.delete(cms+"/a", "")
	again := s.delete(cms+"/a", "")
	s.say("a second deletion writes nothing: %v", first.rv() == again.rv())
	s.patch(typeMerge, cms+"/a", `{"metadata":{"finalizers":["example.org/one","example.org/two","example.org/three"]}}`)
	s.patch(typeMerge, cms+"/a", `{"metadata":{"finalizers":["example.org/other"]}}`)
	s.patch(typeMerge, cms+"/a", `{"data":{"still":"writable"}}`)
	s.patch(typeMerge, cms+"/a", `{"metadata":{"deletionTimestamp":null}}`)
	s.post(cms, configMap("a"))
	s.apply(cms+"/a?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"y"}}}`)
	s.patch(typeJSONPatch, cms+"/a", `[{"op":"remove","path":"/metadata/finalizers/1"}]`)
	s.delete(cms+"/a", `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`)
	s.patch(typeMerge, cms+"/a", `{"metadata":{"finalizers":null}}`)
	s.get(cms + "/a")
	w.take(5)
	s.post(cms, configMap("a"))
	w.take(1)
}

func finalizersByPut(s *side) {
	cms := s.in("configmaps")
	s.quietly("POST", cms, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["example.org/one"]}}`)
	s.delete(cms+"/a", "")
	s.put(cms+"/a?dryRun=All", configMap("a"))
	s.get(cms + "/a")
	s.put(cms+"/a", configMap("a"))
	s.get(cms + "/a")
	s.delete(cms+"/a", "")
}

func deleteOptions(s *side) {
	cms := s.in("configmaps")
	for _, body := range []string{
		`{"kind":"DeleteOptions","apiVersion":"v1"}`, `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`, `{"kind":"DeleteOptions","apiVersion":"apps/v1"}`, `{}`, `{"gracePeriodSeconds":5}`, `{"gracePeriodSeconds":-5}`,
		`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`, `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Sideways"}`, `{"kind":"DeleteOptions","apiVersion":"v1","orphanDependents":false}`,
		`{"kind":"DeleteOptions","apiVersion":"v1","orphanDependents":false,"propagationPolicy":"Background"}`, `{"kind":"ConfigMap","apiVersion":"v1"}`, `{"kind":"DeleteOptions","apiVersion":"v1","unknown":1}`, `[]`, `null`, `x`, `{"preconditions":5}`,
	} {
		s.create("a" + s.number())
		s.say("delete with %s", body)
		s.delete(cms+"/a"+s.last(), body)
	}
	s.create("q")
	s.delete(cms+"/q?propagationPolicy=Sideways", "")
	s.delete(cms+"/q?gracePeriodSeconds=x", "")
	s.delete(cms+"/q?gracePeriodSeconds=1&propagationPolicy=Background", "")
	s.delete(cms+"/q", "")
	s.create("r")
	s.delete(cms+"/r", "gracePeriodSeconds: 1\n", "Content-Type: "+typeYAML)
	s.create("t")
	s.delete(cms+"/t", `{}`, "Content-Type: text/plain")
}

// dependents shows the requests to a garbage collector, which neither side runs here.
func dependents(s *side) {
	cms := s.in("configmaps")
	for _, policy := range []string{"Orphan", "Foreground", "Background"} {
		s.create("a")
		s.quietly("DELETE", cms+"/a?propagationPolicy="+policy, "")
		a, err := s.do("GET", cms+"/a", "")
		s.say("deleted as %s: %v %d, finalizers %v", policy, err, a.code, a.field("metadata", "finalizers"))
		if _, err := s.do("PATCH", cms+"/a", `{"metadata":{"finalizers":null}}`, "Content-Type: "+typeMerge); err != nil {
			s.say("%v", err)
		}
	}
}

func deleteCollection(s *side) {
	cms := s.in("configmaps")
	s.five()
	s.delete(cms+"?labelSelector=odd=true&dryRun=All", "")
	s.delete(cms+"?fieldSelector=metadata.name=a", "")
	s.get(cms + "?limit=2")
	s.delete(cms+"?labelSelector=odd=true&limit=1", "")
	s.get(cms + "?limit=1")
	s.delete(cms, `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`)
	s.delete(cms, "")
	s.delete(cms+"?propagationPolicy=Sideways", "")
	s.delete(cms+"?limit=x", "")
	s.delete("/api/v1/configmaps", "")
	s.delete("/api/v1/namespaces", "")
	s.delete("/api/v1/namespaces/none/configmaps", "")
	s.quietly("POST", cms, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f","finalizers":["example.org/one"]}}`)
	s.delete(cms, "")
	s.get(cms + "/f")
}

func deletedObjects(s *side) {
	cms := s.in("configmaps")
	s.create("a")
	s.delete(cms+"/a", "", "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	s.delete(cms+"/a", "")
	s.create("a")
	s.delete(cms+"/a", "", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1,application/json")
	s.quietly("POST", s.in("serviceaccounts"), `{"metadata":{"name":"sa"}}`)
	s.delete(s.in("serviceaccounts", "sa"), "")
	s.quietly("POST", s.in("resourcequotas"), `{"metadata":{"name":"q"}}`)
	s.delete(s.in("resourcequotas", "q"), "")
	s.delete(s.in("configmaps", ""), "")
}

func namespaceLife(s *side) {
	path := "/api/v1/namespaces/" + s.ns + "-x"
	s.quietly("POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+s.ns+`-x"}}`)
	s.post("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+s.ns+`-x"}}`)
	s.quietly("POST", path+"/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f","finalizers":["example.org/one"]}}`)
	a := s.quietly("DELETE", path, "")
	s.say("phase %s, terminating %v", a.text("status", "phase"), a.text("metadata", "deletionTimestamp") != "")
	s.post(path+"/configmaps", configMap("late"))
	s.get(path + "/configmaps/late")
}
