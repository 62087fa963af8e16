package conformance

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

func version(s *side) {
	a, err := s.do("GET", "/version", "")
	s.say("%v %d %s: %v.%v", err, a.code, a.header.Get("Content-Type"), a.field("major"), a.field("minor"))
	for _, field := range []string{"gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} {
		_, ok := a.field(field).(string)
		s.say("%s is text: %v", field, ok)
	}
}

// discovered has what clients build on of a resource, by group version and name.
func discovered(s *side, gv string) {
	path := "/apis/" + gv
	if gv == "v1" {
		path = "/api/v1"
	}
	a, err := s.do("GET", path, "")
	s.say("%s: %v %d %s %v", path, err, a.code, a.text("kind"), a.text("groupVersion"))
	resources, _ := a.field("resources").([]any)
	for _, r := range resources {
		m, _ := r.(map[string]any)
		delete(m, "storageVersionHash")
		if verbs, ok := m["verbs"].([]any); ok { // in no particular order
			slices.SortFunc(verbs, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		b, err := json.Marshal(m)
		s.say("  %s %v", b, err)
	}
}

func plainDiscovery(s *side) {
	s.get("/api", "Accept: application/json")
	for _, gv := range []string{"v1", "apps/v1", "batch/v1", "autoscaling/v1", "autoscaling/v2", "events.k8s.io/v1", "policy/v1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1", "apiextensions.k8s.io/v1", "coordination.k8s.io/v1", "storage.k8s.io/v1"} {
		discovered(s, gv)
	}
	s.get("/apis/apps", "Accept: application/json")
	s.get("/apis/autoscaling", "Accept: application/json")
	group := s.ns + ".example.org"
	s.define(group, `{"type":"object"}`)
	s.eventually("/apis/"+group, 200)
	s.get("/apis/" + group)
	discovered(s, group+"/v1")
}

func aggregatedDiscovery(s *side) {
	const v2 = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
	for _, path := range []string{"/api", "/apis"} {
		a, err := s.do("GET", path, "", v2)
		s.say("%s: %v %d %s %s, ETag %v", path, err, a.code, a.header.Get("Content-Type"), a.text("kind"), a.header.Get("ETag") != "")
		again, etag := a, ""
		s.soon("the same again", func() bool { // other behaviours define resources in between, and then it has changed
			etag = again.header.Get("ETag")
			again, err = s.do("GET", path, "", v2, "If-None-Match: "+etag)
			return err != nil || again.code != 200 || again.header.Get("ETag") == etag
		})
		s.say("again: %v %d, %v bytes", err, again.code, len(again.body) > 0)
		items, _ := a.field("items").([]any)
		for _, item := range items {
			m, _ := item.(map[string]any)
			b, err := json.Marshal(m)
			if n := (answer{object: m}).text("metadata", "name"); n == "apps" || n == "coordination.k8s.io" {
				s.say("  %v %s", err, ofTheList.ReplaceAll(b, []byte(`"responseKind":{"kind":"$1"}`)))
			}
		}
	}
	a, err := s.do("GET", "/apis", "", "Accept: application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json")
	s.say("v2beta1: %v %d %s %s", err, a.code, a.header.Get("Content-Type"), a.text("kind"))
	a, err = s.do("GET", "/apis", "", "Accept: application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList")
	s.say("v9: %v %d %s", err, a.code, a.text("kind"))
	a, err = s.do("GET", "/apis", "", "Accept: application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	s.say("protobuf: %v %d %s %v", err, a.code, a.header.Get("Content-Type"), strings.HasPrefix(string(a.body), "k8s\x00"))
	a, err = s.do("GET", "/api", "", "Accept: application/vnd.kubernetes.protobuf")
	s.say("plain protobuf: %v %d %s %v", err, a.code, a.header.Get("Content-Type"), strings.HasPrefix(string(a.body), "k8s\x00"))
}

// ofTheList is the kind of what the list is of: Kubernetes leaves its group and
// version empty, which means the same.
var ofTheList = regexp.MustCompile(`"responseKind":{"group":"(?:|apps|coordination\.k8s\.io)","kind":"(\w+)","version":"(?:|v1)"}`)

func openAPI(s *side) {
	a, err := s.do("GET", "/openapi/v3", "")
	s.say("v3: %v %d", err, a.code)
	for _, gv := range []string{"api/v1", "apis/apps/v1"} {
		url, _ := a.field("paths", gv, "serverRelativeURL").(string)
		_, query, ok := strings.Cut(url, "?hash=")
		s.say("%s has a hash: %v", gv, ok && query != "")
		d, err := s.do("GET", "/openapi/v3/"+gv+"?hash="+query, "")
		s.say("%s: %v %d %s immutable %v %s, ETag %v", gv, err, d.code, d.header.Get("Content-Type"), strings.Contains(d.header.Get("Cache-Control"), "immutable"), d.text("openapi"), d.header.Get("ETag") != "")
		again, err := s.do("GET", "/openapi/v3/"+gv, "", "If-None-Match: "+d.header.Get("ETag"))
		s.say("again: %v %d, %v bytes", err, again.code, len(again.body) > 0)
		old, err := s.do("GET", "/openapi/v3/"+gv+"?hash=OLD", "")
		s.say("with an old hash: %v %d to the current: %v", err, old.code, strings.HasSuffix(old.header.Get("Location"), "hash="+query))
	}
	p, err := s.do("GET", "/openapi/v3/api/v1", "", "Accept: application/com.github.proto-openapi.spec.v3@v1.0+protobuf")
	s.say("protobuf: %v %d %s %v", err, p.code, p.header.Get("Content-Type"), len(p.body) > 1000)
	b, err := s.do("GET", "/openapi/v2", "")
	s.say("v2: %v %d %s %s, ETag %v", err, b.code, b.header.Get("Content-Type"), b.text("swagger"), b.header.Get("ETag") != "")
	p, err = s.do("GET", "/openapi/v2", "", "Accept: application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
	s.say("v2 protobuf: %v %d %s %v", err, p.code, p.header.Get("Content-Type"), len(p.body) > 1000)
	s.get("/openapi/v2", "Accept: text/html")
	s.get("/openapi/v3/api/v1", "Accept: text/html")
}
