package conformance

import (
	"net/http"
	"net/url"
	"strings"
)

func fieldSelectors(s *side) {
	s.create("a")
	s.create("b")
	s.quietly(http.MethodPost, s.in("secrets"), `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"o"},"type":"Opaque"}`)
	s.quietly(http.MethodPost, s.in("secrets"), `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c"},"type":"example.org/c"}`)
	for _, q := range []string{
		"configmaps?fieldSelector=metadata.name=a", "configmaps?fieldSelector=metadata.name==a", "configmaps?fieldSelector=metadata.name!=a",
		"configmaps?fieldSelector=metadata.namespace=" + s.ns, "configmaps?fieldSelector=metadata.namespace=other",
		"configmaps?fieldSelector=metadata.name=a,metadata.name=b", "configmaps?fieldSelector=metadata.name=none",
		"secrets?fieldSelector=type=example.org/c", "secrets?fieldSelector=type!=example.org/c",
		"configmaps?fieldSelector=", "configmaps?fieldSelector=,",
	} {
		s.get(s.in(q))
	}
	for _, phase := range []string{"Active", "Terminating"} {
		s.say("%s: %v", phase, namesOf(s.quietly(http.MethodGet, "/api/v1/namespaces?fieldSelector=status.phase="+phase+",metadata.name="+s.ns, "")))
	}
}

// pods are stored without a node or a service account that they would need in a cluster.
func podFieldSelectors(s *side) {
	for _, p := range []string{`"name":"a"},"spec":{"nodeName":"n1"`, `"name":"b"},"spec":{"restartPolicy":"Never"`, `"name":"c"},"spec":{"hostNetwork":true`} {
		s.quietly(http.MethodPost, s.in("pods"), `{"apiVersion":"v1","kind":"Pod","metadata":{`+p+`,"containers":[{"name":"x","image":"x"}]}}`)
	}
	s.quietly(http.MethodPatch, s.in("pods", "b", "status"), `{"status":{"phase":"Running","podIP":"10.1.2.3","podIPs":[{"ip":"10.1.2.3"}]}}`, "Content-Type: "+typeMerge)
	for _, selector := range []string{"spec.nodeName=n1", "spec.nodeName=", "spec.nodeName!=n1", "status.phase=Running", "status.phase!=Running", "spec.restartPolicy=Never",
		"status.podIP=10.1.2.3", "spec.hostNetwork=true", "metadata.name=a,spec.nodeName=n1", "spec.serviceAccountName=x"} {
		a := s.quietly(http.MethodGet, s.in("pods")+"?fieldSelector="+url.QueryEscape(selector), "")
		s.say("%s: %s", selector, strings.Join(namesOf(a), " "))
	}
}

func namesOf(a answer) (names []string) {
	items, _ := a.field("items").([]any)
	for _, item := range items {
		m, _ := item.(map[string]any)
		names = append(names, answer{object: m}.text("metadata", "name"))
	}
	return names
}

func unsupportedFields(s *side) {
	for _, path := range []string{
		s.in("configmaps") + "?fieldSelector=data.k=v", s.in("configmaps") + "?fieldSelector=metadata.uid=x", s.in("configmaps") + "?fieldSelector=metadata.name",
		s.in("configmaps") + "?fieldSelector=a=b=c", s.in("configmaps") + "?fieldSelector=metadata.name%20in%20(a)", s.in("configmaps") + "?fieldSelector=%5C",
		s.in("pods") + "?fieldSelector=spec.hostname=x", s.in("secrets") + "?fieldSelector=data.x=y", s.in("services") + "?fieldSelector=spec.foo=x",
		s.inGroup("apps/v1", "deployments") + "?fieldSelector=spec.replicas=1", s.inGroup("batch/v1", "jobs") + "?fieldSelector=status.active=1",
		"/api/v1/nodes?fieldSelector=spec.podCIDR=x", s.in("events") + "?fieldSelector=message=x", s.inGroup("events.k8s.io/v1", "events") + "?fieldSelector=involvedObject.name=x",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=spec.group=x", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=metadata.namespace=x",
		"/api/v1/namespaces?fieldSelector=metadata.namespace=x",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles?fieldSelector=rules=x", s.inGroup("autoscaling/v2", "horizontalpodautoscalers") + "?fieldSelector=spec.maxReplicas=1",
	} {
		s.get(path)
	}
	s.watch(s.in("configmaps") + "?watch=true&fieldSelector=data.k=v").rest()
	s.delete(s.in("configmaps")+"?fieldSelector=data.k=v", "")
}

func labelSelectors(s *side) {
	s.create("a", "app=web", "tier=front")
	s.create("b", "app=web", "tier=back")
	s.create("c", "app=db")
	s.create("d")
	for _, selector := range []string{"app=web", "app==web", "app!=web", "app", "!app", "app in (web,db)", "app in (web), tier notin (back)", "tier notin (back)",
		"app=web,tier=front", "app in (web,),tier", "app=", "n>1", "app in ()", "app=web,", " app = web ", "x/y=z", "app notin (web,db),!tier"} {
		a, err := s.do(http.MethodGet, s.in("configmaps")+"?labelSelector="+url.QueryEscape(selector), "")
		s.say("%s: %v %d %s %s", selector, err, a.code, strings.Join(namesOf(a), " "), a.text("message"))
	}
}

func invalidLabelSelectors(s *side) {
	for _, selector := range []string{"app in", "app in (a", "in (a)", "app=a=b", "a b", "app=@", "-a=b", "app=" + strings.Repeat("x", 64), "a/b/c=d", "app>x",
		"app in (a b)", "!", "=", strings.Repeat("k", 64) + "=v", "(", "app===x", "app!=x!", "A_.-=x"} {
		s.get(s.in("configmaps") + "?labelSelector=" + url.QueryEscape(selector))
	}
	s.watch(s.in("configmaps") + "?watch=true&labelSelector=app=@").rest()
	s.delete(s.in("configmaps")+"?labelSelector=app=@", "")
	s.get(s.in("configmaps") + "?labelSelector=a=1&labelSelector=b=2")
}
