package conformance

func secretStringData(s *side) {
	path := s.in("secrets")
	s.post(path+"?fieldManager=m", `{"metadata":{"name":"a"},"type":"Opaque","data":{"b":"Yg==","both":"eA=="},"stringData":{"s":"text","both":"wins"}}`)
	s.put(path+"/a?fieldManager=m", `{"metadata":{"name":"a"},"type":"Opaque","stringData":{"s":"other"}}`)
	s.patch(typeMerge, path+"/a?fieldManager=n", `{"stringData":{"t":"more"}}`)
	s.patch(typeStrategic, path+"/a?fieldManager=n", `{"stringData":{"t":"again"}}`)
	s.apply(path+"/a?fieldManager=o", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"type":"Opaque","stringData":{"u":"applied"}}`)
	s.apply(path+"/new?fieldManager=o", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"new"},"type":"Opaque","stringData":{"u":"applied"}}`)
	s.post(path, `{"metadata":{"name":"bad"},"type":"Opaque","data":{"x":"not base64"}}`)
	s.post(path, `{"metadata":{"name":"bad"},"type":"Opaque","data":{"x":5}}`)
}

func immutableData(s *side) {
	for _, c := range [][2]string{{"configmaps", `"data":{"a":"`}, {"secrets", `"type":"Opaque","stringData":{"a":"`}} {
		path := s.in(c[0], "i")
		object := func(value, immutable string) string {
			return `{"metadata":{"name":"i"},` + c[1] + value + `"},"immutable":` + immutable + `}`
		}
		s.post(s.in(c[0]), object("1", "true"))
		s.put(path, object("2", "true"))
		s.put(path, object("1", "false"))
		s.put(path, object("1", "null"))
		s.patch(typeMerge, path, `{"data":{"b":"Yg=="},"immutable":null}`)
		s.patch(typeMerge, path, `{"metadata":{"labels":{"x":"y"}}}`)
		s.apply(path+"?fieldManager=m&force=true", `{"apiVersion":"v1","kind":"`+map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}[c[0]]+`","metadata":{"name":"i"},"data":{"a":"eHg="}}`)
		s.delete(path, "")
	}
}

// unvalidated are writes that only the validation of a kind refuses.
func unvalidated(s *side) {
	refused := func(method, path, body string) {
		a, err := s.do(method, path, body)
		s.say("%s %s %s: %v %d", method, path, body, err, a.code)
	}
	s.quietly("POST", s.in("secrets"), `{"metadata":{"name":"t"},"type":"Opaque"}`)
	refused("PUT", s.in("secrets", "t"), `{"metadata":{"name":"t"},"type":"other"}`)
	refused("POST", s.in("configmaps"), `{"metadata":{"name":"k"},"data":{"a/b":"x"}}`)
	refused("POST", s.in("podtemplates"), `{"metadata":{"name":"k"}}`)
	refused("POST", s.in("services"), `{"metadata":{"name":"k"},"spec":{"ports":[{"port":-1}]}}`)
}

// defaulted shows the fields that a cluster adds to written objects.
func defaulted(s *side) {
	s.post(s.in("services"), `{"metadata":{"name":"d"},"spec":{"type":"ExternalName","externalName":"example.org"}}`)
	a := s.quietly("GET", "/api/v1/namespaces/"+s.ns, "")
	s.say("labels %v, finalizers %v", a.field("metadata", "labels"), a.field("spec", "finalizers"))
}

// warned shows what a cluster warns of.
func warned(s *side) {
	s.post(s.in("endpoints"), `{"metadata":{"name":"e"}}`)
}

func bothEvents(s *side) {
	core, events := s.in("events"), s.inGroup("events.k8s.io/v1", "events")
	s.post(core, `{"apiVersion":"v1","kind":"Event","metadata":{"name":"old"},"involvedObject":{"kind":"ConfigMap","namespace":"`+s.ns+`","name":"a","uid":"u","apiVersion":"v1"},"reason":"R","message":"m","type":"Normal","source":{"component":"c","host":"h"},"count":2,"firstTimestamp":"2020-01-01T00:00:00Z","lastTimestamp":"2020-01-02T00:00:00Z"}`)
	s.post(events, `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"new"},"regarding":{"kind":"ConfigMap","namespace":"`+s.ns+`","name":"b"},"reason":"R","note":"n","type":"Warning","eventTime":"2020-01-01T00:00:00.000000Z","action":"A","reportingController":"example.org/c","reportingInstance":"i","series":{"count":3,"lastObservedTime":"2020-01-01T00:00:00.000000Z"}}`)
	s.get(events + "/old")
	s.get(core + "/new")
	s.get(core + "?fieldSelector=involvedObject.name=b,involvedObject.kind=ConfigMap")
	s.get(core + "?fieldSelector=involvedObject.uid=u,type=Normal,reason=R,source=c")
	s.get(events + "?fieldSelector=regarding.name=a,regarding.namespace=" + s.ns)
	s.get(events + "?fieldSelector=reportingController=example.org/c")
	s.watch(events + "?watch=true&fieldSelector=metadata.name=new").take(1)
	s.delete(events+"/old", "")
	s.get(core + "/old")
}

func bothAutoscalers(s *side) {
	v1, v2 := s.inGroup("autoscaling/v1", "horizontalpodautoscalers"), s.inGroup("autoscaling/v2", "horizontalpodautoscalers")
	s.post(v1, `{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"one"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"minReplicas":1,"maxReplicas":5,"targetCPUUtilizationPercentage":70}}`)
	s.post(v2, `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"two"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"minReplicas":1,"maxReplicas":5,"metrics":[{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}},{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`)
	s.get(v2 + "/one")
	s.get(v1 + "/two")
	s.patch(typeMerge, v1+"/two", `{"spec":{"maxReplicas":9}}`)
	s.get(v2 + "/two")
	s.apply(v1+"/one?fieldManager=m", `{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"one"},"spec":{"maxReplicas":7}}`)
	s.apply(v2+"/one?fieldManager=n&force=true", `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"one"},"spec":{"maxReplicas":8}}`)
	s.patch(typeMerge, v2+"/one/status", `{"status":{"currentReplicas":2,"desiredReplicas":3}}`)
	s.get(v1 + "/one")
}

// quotas have a status, and nothing in their spec that would be defaulted.
func statusIsolation(s *side) {
	path := s.in("resourcequotas", "q")
	quota := func(hard, used string) string {
		return `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"` + hard + `"}},"status":{"used":{"pods":"` + used + `"}}}`
	}
	s.post(s.in("resourcequotas")+"?fieldManager=m", quota("1", "1"))
	s.put(path+"?fieldManager=m", quota("2", "2"))
	s.put(path+"/status?fieldManager=st", quota("3", "3"))
	s.get(path + "/status")
	s.patch(typeMerge, path+"/status?fieldManager=st", `{"spec":{"hard":{"pods":"4"}},"status":{"used":{"pods":"4"}}}`)
	s.patch(typeStrategic, path+"/status?fieldManager=st", `{"status":{"hard":{"pods":"5"}}}`)
	s.patch(typeJSONPatch, path+"/status?fieldManager=st", `[{"op":"remove","path":"/status"}]`)
	s.patch(typeMerge, path+"?fieldManager=m", `{"status":{"used":{"pods":"6"}}}`)
	s.apply(path+"/status?fieldManager=ap", `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"8"}},"status":{"used":{"pods":"7"}}}`)
	s.post(path+"/status", quota("1", "1"))
	s.delete(path+"/status", "")
	s.put(path+"/status", `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q","resourceVersion":"1"},"status":{}}`)
	s.get(s.in("configmaps", "q", "status"))
	s.put(s.in("resourcequotas", "none", "status"), `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"none"}}`)
}

func generations(s *side) {
	pdb := s.inGroup("policy/v1", "poddisruptionbudgets")
	say := func(what string, a answer) {
		s.say("%s: %d, generation %v", what, a.code, a.field("metadata", "generation"))
	}
	do := func(what, method, path, body, contentType string) {
		a, _ := s.do(method, path, body, "Content-Type: "+contentType)
		say(what, a)
	}
	do("create", "POST", pdb, `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"p","generation":5},"spec":{"minAvailable":1}}`, typeJSON)
	do("labels", "PATCH", pdb+"/p", `{"metadata":{"labels":{"x":"y"}}}`, typeMerge)
	do("status", "PATCH", pdb+"/p/status", `{"status":{"observedGeneration":1,"currentHealthy":0,"desiredHealthy":0,"disruptionsAllowed":0,"expectedPods":0}}`, typeMerge)
	do("nothing", "PATCH", pdb+"/p", `{"spec":{"minAvailable":1}}`, typeMerge)
	do("spec", "PATCH", pdb+"/p", `{"spec":{"minAvailable":2}}`, typeMerge)
	do("own generation", "PATCH", pdb+"/p", `{"metadata":{"generation":77}}`, typeMerge)
	do("own generation and spec", "PATCH", pdb+"/p", `{"metadata":{"generation":77},"spec":{"minAvailable":3}}`, typeMerge)
	do("a kind without", "POST", s.in("configmaps"), `{"metadata":{"name":"c","generation":5}}`, typeJSON)
	netpol := s.inGroup("networking.k8s.io/v1", "networkpolicies")
	do("network policy", "POST", netpol, `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"n"},"spec":{"podSelector":{},"policyTypes":["Ingress"]}}`, typeJSON)
	do("network policy's labels", "PATCH", netpol+"/n", `{"metadata":{"labels":{"x":"y"}}}`, typeMerge)
	do("network policy's spec", "PATCH", netpol+"/n", `{"spec":{"policyTypes":["Egress"]}}`, typeMerge)
	do("deletion with a finalizer", "PATCH", pdb+"/p", `{"metadata":{"finalizers":["example.org/f"]}}`, typeMerge)
	do("deletion", "DELETE", pdb+"/p", "", typeJSON)
	do("while terminating", "PATCH", pdb+"/p", `{"spec":{"minAvailable":4}}`, typeMerge)
}

const deploymentJSON = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"d"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"c","image":"x"}]}}}}`

func scaleSubresource(s *side) {
	path := s.inGroup("apps/v1", "deployments", "d", "scale")
	s.quietly("POST", s.inGroup("apps/v1", "deployments"), deploymentJSON)
	scale := func(replicas string) string {
		return `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":` + replicas + `}}`
	}
	a := s.get(path)
	s.put(path+"?fieldManager=m", scale("3"))
	s.put(path, scale("-1"))
	s.put(path, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d","resourceVersion":"`+a.rv()+`"},"spec":{"replicas":4}}`)
	s.put(path, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}}`)
	s.put(path, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"e"},"spec":{"replicas":1}}`)
	s.patch(typeMerge, path, `{"spec":{"replicas":5}}`)
	s.patch(typeStrategic, path, `{"spec":{"replicas":6}}`)
	s.patch(typeJSONPatch, path, `[{"op":"replace","path":"/spec/replicas","value":7}]`)
	s.patch(typeMerge, path+"?dryRun=All", `{"spec":{"replicas":9}}`)
	s.apply(path+"?fieldManager=ap&force=true", scale("8"))
	s.delete(path, "")
	s.get(s.inGroup("apps/v1", "deployments", "none", "scale"))
	s.get(s.inGroup("apps/v1", "daemonsets", "none", "scale"))
	d := s.quietly("GET", s.inGroup("apps/v1", "deployments", "d"), "")
	s.say("replicas %v, generation %v", d.field("spec", "replicas"), d.field("metadata", "generation"))
}

// otherSubresources are those that mean something to a cluster only.
func otherSubresources(s *side) {
	s.quietly("POST", s.in("pods"), `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"x","image":"x"}]}}`)
	for _, sub := range []string{"log", "exec", "attach", "portforward", "proxy", "eviction", "binding", "ephemeralcontainers", "resize", "nothing"} {
		a, err := s.do("GET", s.in("pods", "p", sub), "")
		s.say("GET pods/%s: %v %d", sub, err, a.code)
		a, err = s.do("PATCH", s.in("pods", "p", sub), `{}`, "Content-Type: "+typeMerge)
		s.say("PATCH pods/%s: %v %d", sub, err, a.code)
	}
	for _, path := range []string{"/api/v1/namespaces/" + s.ns + "/finalize", s.in("serviceaccounts", "default", "token"), "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", s.in("services", "x", "proxy"), "/api/v1/nodes/x/proxy"} {
		a, err := s.do("GET", path, "")
		s.say("GET %s: %v %d", path, err, a.code)
	}
}
