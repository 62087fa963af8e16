package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

func crdRemoval(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, anything, ""))
	s.quietly(http.MethodPost, k.path(), k.object("a", ""))
	s.quietly(http.MethodPost, k.path(), strings.Replace(k.object("held", ""), `"name"`, `"finalizers":["example.org/wait"],"name"`, 1))
	w := s.watch(k.path() + "?watch=true&timeoutSeconds=3600&resourceVersion=0")
	w.set(2)
	s.quietly(http.MethodDelete, k.crdPath(), "")
	w.set(2)
	k.conditions("Established True", "Terminating True")
	k.post(k.path(), k.object("late", ""))
	k.get(k.path("a"))
	s.quietly(http.MethodPatch, k.path("held"), `{"metadata":{"labels":{"x":"y"}}}`, merging)
	w.set(1)
	k.try(http.MethodPost, crdsPath, k.crd(crdVersion("v1", true, anything, "")))
	s.say("let go")
	s.quietly(http.MethodPatch, k.path("held"), `{"metadata":{"finalizers":null}}`, merging)
	w.set(1)
	s.eventually(k.crdPath(), http.StatusNotFound)
	w.rest()
	s.eventually(k.path(), http.StatusNotFound)
	k.get(k.path("held"))
	k.get(k.path() + "?watch=true&resourceVersion=0")
	s.eventually("/apis/"+k.group, http.StatusNotFound)
	s.say("again")
	k.define(crdVersion("v1", true, anything, ""))
	k.get(k.path())
	k.post(k.path(), k.object("a", ""))
}

// set notes type and name of n events, in no order.
func (w *stream) set(n int) {
	var lines []string
	for range n {
		select {
		case event, ok := <-w.events:
			a := answer{object: event}
			lines = append(lines, fmt.Sprintf("  %t %v %s", ok, event["type"], a.text("object", "metadata", "name")))
		case <-time.After(timeout):
			lines = append(lines, "  nothing came")
		}
	}
	slices.Sort(lines)
	w.side.say("%s", strings.Join(lines, "\n"))
}

func crdApply(s *side) {
	k := s.kind()
	apply := func(manager, more, crd string) {
		s.say("%s%s", manager, more)
		a := k.try(http.MethodPatch, k.crdPath()+"?fieldManager="+manager+more, crd, applying)
		k.say("  generation %v", a.field("metadata", "generation"))
	}
	described := strings.Replace(anything, `{`, `{"description":"a thing",`, 1)
	apply("one", "", k.crd(crdVersion("v1", true, anything, "")))
	k.conditions("Established True")
	apply("one", "", k.crd(crdVersion("v1", true, anything, "")))
	apply("two", "", k.crd(crdVersion("v1", true, described, "")))
	apply("two", "", k.crd(crdVersion("v1", false, anything, "")))
	apply("two", "&force=true", k.crd(crdVersion("v1", true, described, ""), crdVersion("v2", false, anything, "")))
	apply("two", "", k.crd(crdVersion("v1", true, described, "")))
	apply("one", "", k.crd())
	apply("two", "&fieldValidation=Strict", strings.Replace(k.crd(crdVersion("v1", true, described, "")), `"scope"`, `"scoop":1,"scope"`, 1))
	k.conditions("Established True")
}

// A CRD's status is what the server says; what clients write to it is different
// in a space, which keeps only the stored versions.
func crdStatus(s *side) {
	k := s.kind()
	body := strings.Replace(k.crd(crdVersion("v1", true, anything, "")), `"spec":{`, `"status":{"storedVersions":["v9"],"conditions":[{"type":"Odd","status":"True"}],"acceptedNames":{"plural":"odd","kind":"Odd"}},"spec":{`, 1)
	s.quietly(http.MethodPost, crdsPath, body)
	k.conditions("Established True")
	k.try(http.MethodPatch, k.crdPath()+"/status", `{"spec":{"names":{"shortNames":["x"]}}}`, merging)
	k.conditions("Established True")
	s.quietly(http.MethodPatch, k.crdPath(), `{"metadata":{"labels":{"a":"b"}}}`, merging)
	a, _ := s.do(http.MethodGet, k.crdPath(), "")
	s.say("generation %v", a.field("metadata", "generation"))
	k.conditions("Established True")
}
