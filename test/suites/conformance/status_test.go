package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// metadataThroughStatus shows for every kind that a space serves whether it has a
// status, and what a write to that may change of the metadata: labels,
// annotations, finalizers and owners, by each kind of write.
func metadataThroughStatus(s *side) {
	const metadata = `{"labels":{"x":"y"},"annotations":{"x":"y"},"finalizers":["example.org/f"],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u"}]}`
	for _, o := range s.samples() {
		created, err := s.do(http.MethodPost, o.collection, o.body)
		if err != nil || created.code != http.StatusCreated {
			s.say("%s: %v %d %s", o.kind, err, created.code, created.body)
			continue
		}
		path := o.collection + "/" + o.name
		if a, err := s.do(http.MethodGet, path+"/status", ""); err != nil || a.code != http.StatusOK {
			s.say("%s has no status: %v %d", o.kind, err, a.code)
		} else {
			// This apply makes both sides track the managers, also of objects that they create by themselves.
			s.quietly(http.MethodPatch, path+"?fieldManager=first", `{"apiVersion":"`+o.version+`","kind":"`+o.kind+`","metadata":{"labels":{"first":"yes"}}}`, "Content-Type: "+typeApply)
			s.change(o, "by merge", typeMerge, "merging", `{"metadata":`+metadata+`}`)
			s.change(o, "by merge, back", typeMerge, "merging", `{"metadata":{"labels":{"x":null},"annotations":{"x":null},"finalizers":["example.org/g"],"ownerReferences":null}}`)
			s.change(o, "by apply", typeApply, "applying", `{"apiVersion":"`+o.version+`","kind":"`+o.kind+`","metadata":`+metadata+`}`)
			s.change(o, "by apply, back", typeApply, "applying", `{"apiVersion":"`+o.version+`","kind":"`+o.kind+`","metadata":{"name":"`+o.name+`"}}`)
			s.change(o, "what is no label", typeMerge, "merging", `{"metadata":{"labels":{"a b":"c"}}}`)
			s.change(o, "what is no finalizer", typeMerge, "merging", `{"metadata":{"finalizers":["x"]}}`)
			s.put(path+"/status", `{"apiVersion":"`+o.version+`","kind":"`+o.kind+`","metadata":{"name":"other"}}`)
		}
		if o.kind != "Namespace" { // a real one waits for its controller
			s.quietly(http.MethodPatch, path, `{"metadata":{"finalizers":null,"ownerReferences":null}}`, merging)
			s.quietly(http.MethodDelete, path+"?gracePeriodSeconds=0", "")
		}
	}
}

// change writes the status of an object and records the result.
func (s *side) change(o object, what, contentType, manager, body string) {
	query := "?fieldManager=" + manager
	if contentType == typeApply {
		query += "&force=true"
	}
	a, err := s.do(http.MethodPatch, o.collection+"/"+o.name+"/status"+query, body, "Content-Type: "+contentType)
	s.say("%s %s: %v %d", o.kind, what, err, a.code)
	if a.code != http.StatusOK {
		s.log.value(a.field("message"))
		return
	}
	finalizers, _ := a.field("metadata", "finalizers").([]any)
	owners, _ := a.field("metadata", "ownerReferences").([]any)
	own := slices.DeleteFunc(finalizers, func(f any) bool { return !strings.HasPrefix(fmt.Sprint(f), "example.org/") })
	s.say("  label %v, annotation %v, finalizers %v, %d owners, generation %v",
		a.field("metadata", "labels", "x"), a.field("metadata", "annotations", "x"), own, len(owners), a.field("metadata", "generation"))
	managers, _ := a.field("metadata", "managedFields").([]any)
	for _, m := range managers {
		if m, ok := m.(map[string]any); ok {
			m["fieldsV1"] = withoutSelf(m["fieldsV1"])
		}
	}
	s.log.value(slices.DeleteFunc(s.log.managers(managers).([]any), func(line any) bool { //nolint:forcetypeassert // of a list it is one
		return !strings.HasPrefix(fmt.Sprint(line), manager+" ")
	}))
}

// withoutSelf returns managed fields without the owners of maps and lists themselves: a map to which
// a cluster adds a field has existed before.
func withoutSelf(fields any) any {
	m, ok := fields.(map[string]any)
	if !ok {
		return fields
	}
	out := map[string]any{}
	for k, v := range m {
		if k != "." {
			out[k] = withoutSelf(v)
		}
	}
	return out
}

// samplesDir has an object of every kind that a space serves.
const samplesDir = "../../../internal/hub/kinds/builtin/testdata/objects"

// object is an object of a kind that both sides have.
type object struct{ version, kind, collection, name, body string }

// samples returns objects of all kinds, in the namespace of the side.
func (s *side) samples() []object {
	files, err := filepath.Glob(filepath.Join(samplesDir, "*.yaml"))
	if err != nil || len(files) == 0 {
		s.say("no samples: %v", err)
	}
	var all []object
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			s.say("no sample: %v", err)
		}
		for doc := range bytes.SplitSeq(content, []byte("\n---\n")) {
			all = append(all, s.sample(doc))
		}
	}
	return all
}

func (s *side) sample(doc []byte) object {
	var content map[string]any
	if err := yaml.Unmarshal(doc, &content); err != nil {
		s.say("no sample: %v", err)
		return object{}
	}
	a := answer{object: content}
	o := object{version: a.text("apiVersion"), kind: a.text("kind"), name: a.text("metadata", "name")}
	o.collection = s.collectionOf(o.version, o.kind)
	if metadata, ok := content["metadata"].(map[string]any); ok && metadata["namespace"] != nil {
		metadata["namespace"] = s.ns
	}
	body, err := json.Marshal(content)
	if err != nil {
		s.say("no sample: %v", err)
	}
	o.body = string(body)
	return o
}

// collectionOf returns the path of the objects of a kind, from discovery.
func (s *side) collectionOf(version, kind string) string {
	root := "/apis/" + version
	if !strings.Contains(version, "/") {
		root = "/api/" + version
	}
	resources, _ := s.quietly(http.MethodGet, root, "").field("resources").([]any)
	for _, r := range resources {
		m, _ := r.(map[string]any)
		name := fmt.Sprint(m["name"])
		if m["kind"] != kind || strings.Contains(name, "/") {
			continue
		}
		if m["namespaced"] == true {
			return root + "/namespaces/" + s.ns + "/" + name
		}
		return root + "/" + name
	}
	s.say("%s %s is not served", version, kind)
	return root
}
