package conformance

// What a strict server refuses: a field that is not known, and one given twice.
const (
	unknownJSON = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%","unknownMeta":1},"data":{"k":"v"},"unknown":"x"}`
	twiceJSON   = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%","name":"%"},"data":{"k":"v","k":"w"}}`
	appliedYAML = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %\ndata:\n  k: v\n  k: w\nunknown: x\n"
	appliedJSON = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%"},"data":{"k":"v"},"unknown":"x"}`
	bothYAML    = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %\n  unknownMeta: 1\ndata:\n  k: v\n  k: w\nunknown: x\n"
)

var validations = []string{"", "?fieldValidation=Strict", "?fieldValidation=Warn", "?fieldValidation=Ignore", "?fieldValidation=", "?fieldValidation=strict"}

func fieldValidationOfJSON(s *side) {
	for _, v := range validations {
		s.post(s.in("configmaps")+v, name(unknownJSON, "u"+s.number()))
		s.post(s.in("configmaps")+v, name(twiceJSON, "t"+s.number()))
	}
}

func fieldValidationOfYAML(s *side) {
	for _, v := range validations {
		s.post(s.in("configmaps")+v, name(bothYAML, "y"+s.number()), "Content-Type: "+typeYAML)
	}
}

func fieldValidationOfUpdates(s *side) {
	s.create("a")
	for _, v := range validations {
		s.put(s.in("configmaps", "a")+v, name(unknownJSON, "a"))
		s.put(s.in("configmaps", "a")+v, name(bothYAML, "a"), "Content-Type: "+typeYAML)
	}
}

func fieldValidationOfPatches(s *side) {
	s.create("a")
	for _, v := range validations {
		s.patch(typeMerge, s.in("configmaps", "a")+v, `{"data":{"k":"x","k":"y"},"unknown":1}`)
		s.patch(typeStrategic, s.in("configmaps", "a")+v, `{"data":{"k":"x","k":"y"},"unknown":1,"metadata":{"foo":"bar"}}`)
		s.patch(typeJSONPatch, s.in("configmaps", "a")+v, `[{"op":"add","path":"/unknown","value":"x","from":""},{"op":"add","op":"add","path":"/data/k","value":"z","foo":1}]`)
		sep := "?"
		if v != "" {
			sep = v + "&"
		}
		s.apply(s.in("configmaps", "a")+sep+"fieldManager=m&force=true", name(appliedYAML, "a"))
		s.apply(s.in("configmaps", "a")+sep+"fieldManager=m&force=true", name(appliedJSON, "a"))
	}
}

func fieldValidationOfWorkloads(s *side) {
	const deployment = `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"d"},"spec":{"schedule":"* * * * *","foo":1,"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"x","bar":1,"ports":[{"containerPort":80,"baz":true}]}]}}}}}}`
	s.post(s.inGroup("batch/v1", "cronjobs")+"?fieldValidation=Strict", deployment)
	s.post(s.inGroup("batch/v1", "cronjobs")+"?fieldValidation=Strict", `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"d"},"spec":{"schedule":5}}`)
	s.post(s.inGroup("batch/v1", "cronjobs")+"?fieldValidation=Strict", `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"d","labels":{"a":1}}}`)
	s.post(s.inGroup("batch/v1", "cronjobs")+"?fieldValidation=Strict", `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"d"},"spec":[]}`)
	s.post(s.in("configmaps")+"?fieldValidation=Strict", `{"Kind":"ConfigMap","apiVersion":"v1","metadata":{"Name":"x","name":"caps"},"DATA":{"a":"b"}}`)
	s.post(s.in("configmaps")+"?fieldValidation=Warn", `{"Kind":"ConfigMap","apiVersion":"v1","metadata":{"Name":"x","name":"caps2"},"DATA":{"a":"b"}}`)
}

func fieldValidationOfCustomResources(s *side) {
	group := s.ns + ".example.org"
	s.define(group, `{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}},"status":{"type":"object","properties":{"n":{"type":"integer"}}}}}`)
	path := s.inGroup(group+"/v1", "widgets")
	widget := func(name string) string {
		return `{"apiVersion":"` + group + `/v1","kind":"Widget","metadata":{"name":"` + name + `","unknownMeta":1},"spec":{"size":1,"size":2,"colour":"red"},"extra":{}}`
	}
	s.post(path, widget("w"))
	for _, v := range validations[1:] {
		s.post(path+v, widget("c"+s.number()))
		s.put(path+"/w"+v, widget("w"))
		s.patch(typeMerge, path+"/w"+v, `{"spec":{"size":1,"size":2,"colour":"red"},"metadata":{"foo":"bar"}}`)
		s.patch(typeJSONPatch, path+"/w"+v, `[{"op":"add","path":"/spec/colour","value":"red"},{"op":"add","path":"/metadata/foo","value":"red"}]`)
		s.apply(path+"/w"+v+"&fieldManager=m&force=true", `{"apiVersion":"`+group+`/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1,"colour":"red"}}`)
		s.patch(typeMerge, path+"/w/status"+v, `{"status":{"n":1,"m":2}}`)
	}
}
