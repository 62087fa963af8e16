package conformance

import (
	"maps"
	"net/http"
	"slices"
)

func (s *side) update(name string, labels ...string) answer {
	return s.quietly(http.MethodPut, s.in("configmaps", name), configMap(name, labels...))
}

func (s *side) remove(name string) {
	s.quietly(http.MethodDelete, s.in("configmaps", name), "")
}

func watchFromARevision(s *side) {
	a := s.create("a")
	b := s.create("b")
	s.update("a", "changed=yes")
	w := s.watch(s.in("configmaps") + "?watch=true&resourceVersion=" + a.rv())
	w.take(2)
	s.remove("b")
	deleted := w.next()
	s.say("deleted at a revision of its own: %v", answer{object: deleted}.text("object", "metadata", "resourceVersion") != b.rv())
	s.create("c")
	w.take(1)
	again := s.watch(s.in("configmaps") + "?watch=1&resourceVersion=" + answer{object: deleted}.text("object", "metadata", "resourceVersion"))
	again.take(1)
}

func watchFromZeroAndUnset(s *side) {
	s.create("a")
	s.create("b")
	for _, query := range []string{"?watch=true", "?watch=true&resourceVersion=0", "?watch=true&resourceVersion="} {
		w := s.watch(s.in("configmaps") + query)
		w.take(2)
		s.update("a", "query=x")
		w.names("a")
		s.update("a")
		w.names("a")
		w.close()
	}
}

func watchWithLabelSelector(s *side) {
	start := s.create("a", "show=yes")
	w := s.watch(s.in("configmaps") + "?watch=true&labelSelector=show=yes&resourceVersion=" + start.rv())
	s.update("a", "show=yes", "more=yes")
	w.take(1)
	left := s.update("a", "show=no")
	deleted := w.next()
	s.say("at the revision of the change: %v", answer{object: deleted}.text("object", "metadata", "resourceVersion") == left.rv())
	s.update("a", "show=no", "more=yes")
	s.update("a", "show=yes")
	w.take(1)
	s.create("b", "show=no")
	s.remove("b")
	s.remove("a")
	w.take(1)
	s.create("end", "show=yes")
	w.take(1)
}

func watchWithFieldSelector(s *side) {
	start := s.create("a")
	w := s.watch(s.in("configmaps") + "?watch=true&fieldSelector=metadata.name=b&resourceVersion=" + start.rv())
	s.update("a", "x=y")
	s.create("b")
	s.remove("b")
	s.create("b")
	w.take(3)
	other := s.watch(s.in("configmaps") + "?watch=true&fieldSelector=metadata.name!=b&resourceVersion=" + start.rv())
	s.create("c")
	other.names("c")
}

func watchOneName(s *side) {
	start := s.create("a")
	s.create("b")
	one := s.watch("/api/v1/watch/namespaces/" + s.ns + "/configmaps/a?resourceVersion=" + start.rv())
	s.update("b", "x=y")
	s.update("a", "x=y")
	one.take(1)
	all := s.watch("/api/v1/watch/namespaces/" + s.ns + "/configmaps?resourceVersion=" + start.rv())
	all.names("a")
	named := s.watch(s.in("configmaps", "a") + "?watch=true")
	named.take(1)
}

func watchByStatus(s *side) {
	start := s.quietly(http.MethodPost, s.in("resourcequotas"), `{"metadata":{"name":"q"},"spec":{"hard":{"pods":"1"}}}`)
	w := s.watch(s.in("resourcequotas") + "?watch=true&resourceVersion=" + start.rv())
	s.quietly(http.MethodPatch, s.in("resourcequotas", "q", "status"), `{"status":{"used":{"pods":"1"}}}`, "Content-Type: "+typeMerge)
	w.take(1)
	s.quietly(http.MethodPatch, s.in("resourcequotas", "q"), `{"spec":{"hard":{"pods":"2"}}}`, "Content-Type: "+typeMerge)
	w.take(1)
}

func bookmarks(s *side) {
	start := s.create("a")
	w := s.watch(s.in("configmaps") + "?watch=true&allowWatchBookmarks=true&timeoutSeconds=8&resourceVersion=" + start.rv())
	s.create("b")
	// A bookmark may arrive before the event of a concurrent write, or after it.
	last := map[string]answer{}
	for event := range w.events {
		a := answer{object: event}
		last[a.text("type")+" "+a.text("object", "metadata", "name")] = a
	}
	for _, what := range slices.Sorted(maps.Keys(last)) {
		s.say("  %s", what)
		s.log.value(last[what].field("object"))
	}
	s.say("ended")
}

func watchTimeout(s *side) {
	start := s.create("a")
	w := s.watch(s.in("configmaps") + "?watch=true&timeoutSeconds=1&resourceVersion=" + start.rv())
	w.rest()
	for _, query := range []string{"timeoutSeconds=x", "timeoutSeconds=99999999999999999999", "watch=maybe", "allowWatchBookmarks=maybe"} {
		s.watch(s.in("configmaps") + "?watch=true&" + query).take(1)
	}
}

func streamingList(s *side) {
	s.create("a", "show=yes")
	s.create("b", "show=no")
	const query = "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
	for _, more := range []string{"", "&resourceVersion=0", "&resourceVersion=1", "&labelSelector=show=no", "&fieldSelector=metadata.name=a"} {
		w := s.watch(s.in("configmaps") + query + more)
		for {
			event := answer{object: w.next()}
			if event.object == nil || event.text("type") == "BOOKMARK" {
				break
			}
		}
		if more == "" {
			s.create("c")
			w.names("c")
			s.remove("c")
			w.names("c")
		}
		w.close()
	}
	none := s.watch("/api/v1/namespaces/none/configmaps" + query)
	none.take(1)
}

func streamingListOptions(s *side) {
	s.create("a")
	for _, query := range []string{
		"sendInitialEvents=true", "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
		"sendInitialEvents=true&resourceVersionMatch=Exact", "sendInitialEvents=false", "sendInitialEvents=maybe&timeoutSeconds=1",
		"resourceVersionMatch=NotOlderThan", "resourceVersionMatch=NotOlderThan&resourceVersion=1", "sendInitialEvents=true&limit=1",
		"sendInitialEvents=true&continue=x",
	} {
		s.watch(s.in("configmaps") + "?watch=true&" + query).take(1)
	}
	s.get(s.in("configmaps") + "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	quiet := s.watch(s.in("configmaps") + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	quiet.take(1)
	s.create("b")
	quiet.names("b")
	from := s.create("c")
	w := s.watch(s.in("configmaps") + "?watch=true&sendInitialEvents=false&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=" + from.rv())
	s.create("d")
	w.names("d")
}

func streamingListBeforeTheResource(s *side) {
	group := s.ns + ".example.org"
	const query = "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
	path := s.inGroup(group+"/v1", "widgets")
	s.watch(path + query).rest()
	s.define(group, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)
	w := s.watch(path + query)
	w.take(1)
	s.quietly(http.MethodPost, path, `{"apiVersion":"`+group+`/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1}}`)
	w.take(1)
	s.watch(path + query).take(2)
}

func watchFromTheFuture(s *side) {
	s.create("a")
	s.watch(s.in("configmaps") + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999999").rest()
	w := s.watch(s.in("configmaps") + "?watch=true&timeoutSeconds=4&resourceVersion=999999999")
	for event := range w.events {
		s.say("%v", event["type"])
	}
}

func watchOfOtherForms(s *side) {
	start := s.create("a")
	s.update("a", "x=y")
	from := s.in("configmaps") + "?watch=true&resourceVersion=" + start.rv()
	for _, accept := range []string{"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1",
		"application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "application/yaml"} {
		s.watch(from, "Accept: "+accept).take(1)
	}
	s.watch(from+"&includeObject=None", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1").take(1)
	s.watch(from+"&includeObject=Object", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1").take(1)
}

// define makes a CRD of Widgets and waits until they can be used.
func (s *side) define(group, schema string) {
	s.defineVersions(group, `[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":`+schema+`}}]`)
	s.eventually(s.inGroup(group+"/v1", "widgets"), http.StatusOK)
}

func (s *side) defineVersions(group, versions string) {
	s.quietly(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"widgets.`+group+`"},"spec":{"group":"`+group+`","scope":"Namespaced",
"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList","shortNames":["wd"]},"versions":`+versions+`}}`)
}
