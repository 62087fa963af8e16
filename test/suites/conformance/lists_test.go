package conformance

import (
	"encoding/base64"
	"net/http"
	"net/url"
)

// five makes ConfigMaps a to e, of which a, c and e are odd.
func (s *side) five() (first, last answer) {
	first = s.create("a", "odd=true")
	s.create("b", "odd=false")
	s.create("c", "odd=true")
	s.create("d", "odd=false")
	return first, s.create("e", "odd=true")
}

// fiveInCache waits until they are in the cache from which a kube-apiserver answers some
// lists: it may be behind.
func (s *side) fiveInCache() (first, last answer) {
	first, last = s.five()
	s.quietly("GET", s.in("configmaps")+"?resourceVersionMatch=NotOlderThan&resourceVersion="+last.rv(), "")
	return first, last
}

func token(a answer) string { return url.QueryEscape(a.text("metadata", "continue")) }

func limitAndContinue(s *side) {
	s.five()
	first := s.get(s.in("configmaps") + "?limit=2")
	s.create("aa")
	s.create("dd")
	s.quietly(http.MethodDelete, s.in("configmaps", "c"), "")
	s.quietly(http.MethodPut, s.in("configmaps", "d"), configMap("d", "changed=yes"))
	second := s.get(s.in("configmaps") + "?limit=2&continue=" + token(first))
	third := s.get(s.in("configmaps") + "?continue=" + token(second))
	s.say("one revision: %v", first.rv() == second.rv() && second.rv() == third.rv())
	s.get(s.in("configmaps") + "?limit=500")
}

func continueWithSelectors(s *side) {
	s.five()
	first := s.get(s.in("configmaps") + "?limit=1&labelSelector=odd=true")
	s.get(s.in("configmaps") + "?limit=1&labelSelector=odd=true&continue=" + token(first))
	s.get(s.in("configmaps") + "?limit=5&labelSelector=odd=false&continue=" + token(first))
	s.get(s.in("configmaps") + "?limit=1&fieldSelector=metadata.name=c")
	s.get(s.in("configmaps") + "?limit=1&fieldSelector=metadata.name!=a")
}

func badContinueTokens(s *side) {
	s.five()
	first := s.get(s.in("configmaps") + "?limit=2")
	s.get(s.in("configmaps") + "?continue=garbage")
	s.get(s.in("configmaps") + "?continue=%20")
	for _, decoded := range []string{`{}`, `{"v":"meta.k8s.io/v1"}`, `{"v":"meta.k8s.io/v1","rv":1}`, `{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`,
		`{"v":"meta.k8s.io/v2","rv":1,"start":"a"}`, `{"v":"meta.k8s.io/v1","rv":5,"start":"../../../secrets/"}`, `{"v":"meta.k8s.io/v1","rv":-5,"start":"a"}`, `[]`, `null`} {
		a, err := s.do(http.MethodGet, s.in("configmaps")+"?limit=2&continue="+base64.RawURLEncoding.EncodeToString([]byte(decoded)), "")
		s.say("token %s: %v %d %s %q", decoded, err, a.code, a.text("reason"), a.text("message"))
	}
	s.get(s.in("configmaps") + "?limit=2&resourceVersion=" + first.rv() + "&continue=" + token(first))
	s.get(s.in("configmaps") + "?limit=2&resourceVersionMatch=Exact&continue=" + token(first))
	s.get(s.in("secrets") + "?limit=2&continue=" + token(first))
}

func limitWithResourceVersion(s *side) {
	first, last := s.five()
	for _, query := range []string{"limit=2&resourceVersion=" + first.rv(), "limit=2&resourceVersion=" + last.rv(),
		"limit=2&resourceVersion=" + first.rv() + "&resourceVersionMatch=NotOlderThan",
		"limit=2&resourceVersion=" + last.rv() + "&resourceVersionMatch=Exact"} {
		a := s.get(s.in("configmaps") + "?" + query)
		s.say("of the first: %v", a.rv() == first.rv())
		if t := token(a); t != "" {
			s.get(s.in("configmaps") + "?limit=2&continue=" + t)
		}
	}
	s.get(s.in("configmaps") + "?limit=0")
}

func oddLimits(s *side) {
	s.create("a")
	for _, limit := range []string{"-1", "x", "", "9223372036854775807", "9223372036854775808", "1.5"} {
		s.get(s.in("configmaps") + "?limit=" + limit)
	}
}

func resourceVersionMatch(s *side) {
	first, last := s.fiveInCache()
	for _, query := range []string{"resourceVersion=" + first.rv(), "resourceVersion=0", "resourceVersion=",
		"resourceVersion=" + first.rv() + "&resourceVersionMatch=Exact", "resourceVersion=" + first.rv() + "&resourceVersionMatch=NotOlderThan",
		"resourceVersion=" + last.rv() + "&resourceVersionMatch=Exact", "resourceVersion=0&resourceVersionMatch=NotOlderThan",
		"resourceVersion=" + first.rv() + "&resourceVersionMatch=Exact&labelSelector=odd=false",
		"resourceVersion=0&resourceVersionMatch=Exact", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan",
		"resourceVersion=1&resourceVersionMatch=Newer", "resourceVersion=abc", "resourceVersion=-1", "resourceVersion=1.0",
		"resourceVersion=abc&resourceVersionMatch=Exact"} {
		a := s.get(s.in("configmaps") + "?" + query)
		s.say("of the first: %v, older than the last: %v", a.rv() == first.rv(), a.rv() != "" && a.rv() < last.rv())
	}
}

func futureRevisions(s *side) {
	s.create("a")
	for _, path := range []string{"?resourceVersion=999999999", "?resourceVersion=999999999&resourceVersionMatch=NotOlderThan",
		"?resourceVersion=999999999&resourceVersionMatch=Exact", "?limit=1&resourceVersion=999999999",
		"/a?resourceVersion=999999999", "?resourceVersion=18446744073709551615"} {
		s.get(s.in("configmaps") + path)
	}
}

func getAtRevision(s *side) {
	a := s.create("a")
	b := s.create("b")
	s.get(s.in("configmaps", "a") + "?resourceVersion=" + a.rv())
	s.get(s.in("configmaps", "a") + "?resourceVersion=" + b.rv())
	s.get(s.in("configmaps", "b") + "?resourceVersion=" + b.rv())
	s.get(s.in("configmaps", "a") + "?resourceVersion=0")
	s.get(s.in("configmaps", "none"))
}

// malformedRevisions shows that a real server blames itself (500) for some malformed
// revisions.
func malformedRevisions(s *side) {
	s.create("a")
	s.get(s.in("configmaps", "a") + "?resourceVersion=x")
	for _, rv := range []string{"abc", "-1", "1.0", "99999999999999999999"} {
		a, err := s.do("GET", s.in("configmaps")+"?watch=true&resourceVersion="+rv, "")
		s.say("watch from %s: %v %d", rv, err, a.code)
	}
}

// limitOfTheCached asks for a page of whatever revision the server has.
func limitOfTheCached(s *side) {
	s.fiveInCache()
	first := s.quietly("GET", s.in("configmaps")+"?limit=2&resourceVersion=0", "")
	s.say("limit 2 of any revision: %v, more: %v", namesOf(first), first.text("metadata", "continue") != "")
	first = s.quietly("GET", s.in("configmaps")+"?limit=2", "")
	next := s.quietly("GET", s.in("configmaps")+"?limit=2&resourceVersion=0&continue="+token(first), "")
	s.say("the next page of it: %v, more: %v", namesOf(next), next.text("metadata", "continue") != "")
}

func listsOfNamespaces(s *side) {
	s.create("a", "of="+s.ns)
	s.get("/api/v1/configmaps?labelSelector=of=" + s.ns)
	s.get("/api/v1/configmaps?fieldSelector=metadata.namespace=" + s.ns)
	s.get("/api/v1/configmaps?fieldSelector=metadata.namespace=" + s.ns + ",metadata.name=a")
	s.get("/api/v1/namespaces/none/configmaps")
	s.get("/api/v1/namespaces/none/configmaps/a")
	s.say("namespaces: %v", namesOf(s.quietly("GET", "/api/v1/namespaces?fieldSelector=metadata.name="+s.ns, "")))
}
