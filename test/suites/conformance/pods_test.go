package conformance

import (
	"fmt"
	"net/http"
)

// onNode is what of a Pod's spec names a node, whose kubelet would end it.
const onNode = `"nodeName":"n1",`

// makePod makes a Pod and watches all from then on.
func (s *side) makePod(name, metadata, spec string) (answer, *stream) {
	made := s.quietly(http.MethodPost, s.in("pods"), `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`"`+metadata+`},"spec":{`+spec+`"containers":[{"name":"c","image":"i"}]}}`)
	return made, s.watch(s.in("pods") + "?watch=true&resourceVersion=" + made.rv())
}

func deleteOptionsWith(fields string) string {
	return `{"kind":"DeleteOptions","apiVersion":"v1",` + fields + `}`
}

// fate is what the end of an object shows in its metadata.
func fate(object map[string]any) string {
	metadata := func(field string) any { return answer{object: object}.field("metadata", field) }
	return fmt.Sprintf("%v: deleted %v, grace %v, generation %v, finalizers %v", metadata("name"), metadata("deletionTimestamp") != nil,
		metadata("deletionGracePeriodSeconds"), metadata("generation"), metadata("finalizers"))
}

// end records the response to a deletion of Pods, and the events of a watch. The other fields of a
// Pod are not compared, since a cluster adds some.
func (s *side) end(w *stream, path, options string, events int) {
	s.say("delete %s with %s", path, options)
	s.tell(s.do(http.MethodDelete, s.in("pods")+path, options))
	w.fates(events)
}

// tell notes an answer about Pods.
func (s *side) tell(a answer, err error) {
	items, isList := a.field("items").([]any)
	switch {
	case err != nil || a.code >= http.StatusBadRequest:
		s.say("  %v %d %s", err, a.code, a.text("message"))
	case !isList:
		s.say("  %d %s %s", a.code, a.text("kind"), fate(a.object))
	}
	for _, item := range items {
		object, _ := item.(map[string]any)
		s.say("  %d item %s", a.code, fate(object))
	}
}

func (w *stream) fates(events int) {
	for range events {
		event := w.event()
		if event == nil {
			return
		}
		object, _ := event["object"].(map[string]any)
		w.side.say("  %v %s", event["type"], fate(object))
	}
}

// podDeletion is about Pods that nothing runs, or that have ended: they go at once,
// in two steps.
func podDeletion(s *side) {
	for i, options := range []string{"", `{}`, deleteOptionsWith(`"gracePeriodSeconds":0`), deleteOptionsWith(`"gracePeriodSeconds":30`), deleteOptionsWith(`"gracePeriodSeconds":-5`),
		deleteOptionsWith(`"propagationPolicy":"Background"`), deleteOptionsWith(`"orphanDependents":false`)} {
		name := fmt.Sprint("p", i)
		_, w := s.makePod(name, "", "")
		s.end(w, "/"+name, options, 2)
		w.close()
	}
	for _, phase := range []string{"Failed", "Succeeded"} {
		s.makePod("ended", "", onNode)
		ended := s.quietly(http.MethodPatch, s.in("pods", "ended", "status"), `{"status":{"phase":"`+phase+`"}}`, "Content-Type: "+typeMerge)
		w := s.watch(s.in("pods") + "?watch=true&resourceVersion=" + ended.rv())
		s.end(w, "/ended", "", 2)
		w.close()
	}
	_, w := s.makePod("dry", "", "")
	s.end(w, "/dry?dryRun=All", "", 0)
	s.end(w, "/dry", deleteOptionsWith(`"dryRun":["All"],"gracePeriodSeconds":0`), 0)
	s.end(w, "?dryRun=All", "", 0)
	s.tell(s.do(http.MethodGet, s.in("pods", "dry"), ""))
	s.end(w, "/dry", "", 2)
	s.makePod("dry", "", "")
	w.fates(1)
	s.end(w, "/none", "", 0)
}

func podPreconditions(s *side) {
	made, w := s.makePod("p", "", "")
	for _, p := range []string{`"uid":"11111111-2222-3333-4444-555555555555"`, `"resourceVersion":"1"`, `"uid":"` + made.uid() + `","resourceVersion":"1"`} {
		s.end(w, "/p", deleteOptionsWith(`"preconditions":{`+p+`}`), 0)
	}
	s.end(w, "/p", deleteOptionsWith(`"preconditions":{"uid":"`+made.uid()+`","resourceVersion":"`+made.rv()+`"}`), 2)
	made, _ = s.makePod("p", "", "")
	w.fates(1)
	s.end(w, "/p", deleteOptionsWith(`"preconditions":{"uid":"`+made.uid()+`"}`), 2)
}

// heldPods have finalizers: they stay, marked, until those are gone.
func heldPods(s *side) {
	_, w := s.makePod("p", `,"finalizers":["example.org/one","example.org/two"]`, "")
	s.end(w, "/p?dryRun=All", "", 0)
	s.end(w, "/p", deleteOptionsWith(`"gracePeriodSeconds":30`), 1)
	s.end(w, "/p", "", 0)
	s.end(w, "/p", deleteOptionsWith(`"gracePeriodSeconds":0`), 0)
	for _, patch := range [][2]string{{"/p", `{"metadata":{"finalizers":["example.org/two"]}}`}, {"/p/status", `{"status":{"message":"x"}}`}, {"/p", `{"metadata":{"finalizers":null}}`}} {
		s.say("patch %s with %s", patch[0], patch[1])
		s.tell(s.do(http.MethodPatch, s.in("pods")+patch[0], patch[1], "Content-Type: "+typeMerge))
		w.fates(1)
	}
	s.tell(s.do(http.MethodGet, s.in("pods", "p"), ""))
}

func podCollections(s *side) {
	_, w := s.makePod("a", `,"labels":{"is":"a"}`, "")
	s.makePod("b", "", "")
	s.makePod("c", "", "")
	s.makePod("held", `,"finalizers":["example.org/one"]`, "")
	w.fates(3)
	s.end(w, "?labelSelector=is=a&dryRun=All", "", 0)
	s.end(w, "?labelSelector=is=a", deleteOptionsWith(`"gracePeriodSeconds":30`), 2)
	s.end(w, "?fieldSelector=metadata.name=b", "", 2)
	s.end(w, "?fieldSelector=metadata.name!=c", "", 1)
	s.end(w, "?fieldSelector=metadata.name=c&gracePeriodSeconds=0", "", 2)
	s.tell(s.do(http.MethodGet, s.in("pods"), ""))
}

// selectedPods are watched by label and by name, and as metadata alone.
func selectedPods(s *side) {
	made, _ := s.makePod("p", `,"labels":{"show":"yes"}`, "")
	from := "&resourceVersion=" + made.rv()
	watches := []*stream{
		s.watch(s.in("pods") + "?watch=true&labelSelector=show=yes" + from),
		s.watch(s.in("pods") + "?watch=true&fieldSelector=metadata.name=p" + from),
		s.watch(s.in("pods")+"?watch=true"+from, "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
	}
	s.end(watches[0], "/p", "", 2)
	for _, w := range watches[1:] {
		w.fates(2)
	}
}

// podsWithDependents ask for a garbage collector, which neither side has here.
func podsWithDependents(s *side) {
	for _, policy := range []string{"Foreground", "Orphan"} {
		_, w := s.makePod("p", "", "")
		s.end(w, "/p", deleteOptionsWith(`"propagationPolicy":"`+policy+`"`), 1)
		a, err := s.do(http.MethodPatch, s.in("pods", "p"), `{"metadata":{"finalizers":null}}`, "Content-Type: "+typeMerge)
		s.say("let go: %v %d", err, a.code)
		w.fates(1)
		w.close()
	}
}

// podsOnNodes are those that a kubelet would end.
func podsOnNodes(s *side) {
	for i, period := range []string{"", `"gracePeriodSeconds":5,`, `"gracePeriodSeconds":-5,`} {
		path := fmt.Sprint("/p", i)
		_, w := s.makePod(path[1:], "", onNode)
		s.end(w, path, deleteOptionsWith(period+`"dryRun":["All"]`), 0)
		s.end(w, path, deleteOptionsWith(period+`"propagationPolicy":"Background"`), 1)
		s.end(w, path, deleteOptionsWith(`"gracePeriodSeconds":0`), 1)
		s.tell(s.do(http.MethodGet, s.in("pods")+path, ""))
		w.close()
	}
	_, w := s.makePod("now", "", onNode)
	s.end(w, "/now", deleteOptionsWith(`"gracePeriodSeconds":0`), 2)
}
