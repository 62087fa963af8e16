package conformance

import "strings"

// requestTimeouts are of requests that end; those of watches are their own.
func requestTimeouts(s *side) {
	cms := s.in("configmaps")
	s.create("a")
	for _, timeout := range []string{"invalid", "-1s", "5", "0", "0s", "10s", "1h", ""} {
		s.get(cms + "/a?timeout=" + timeout)
	}
	s.post(cms+"?timeout=invalid", configMap("b"))
	s.delete(cms+"/a?timeout=invalid", "")
	s.get(cms + "/a")
}

// formsOfReviews are those in which answers about oneself can be asked for.
func formsOfReviews(s *side) {
	for _, review := range [][2]string{
		{"authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`},
		{"authorization.k8s.io/v1/selfsubjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`},
	} {
		group, body := review[0], review[1]
		a := s.quietly("POST", "/apis/"+group, body, asTable)
		s.say("%s as a table: %d", group, a.code)
		a = s.quietly("POST", "/apis/"+group, body, asTable+",application/json")
		s.say("%s as a table or not: %d", group, a.code)
	}
}

// impersonation is by the headers of Kubernetes, extra fields included.
func impersonation(s *side) {
	const path, body = "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	a := s.quietly("POST", path, body, "Impersonate-User: somebody", "Impersonate-Group: system:masters", "Impersonate-Extra-Scopes: one", "Impersonate-Extra-Scopes: two", "Impersonate-Extra-example.com%2fkey: x")
	s.say("%d %v", a.code, a.field("status", "userInfo", "extra"))
	a = s.quietly("POST", path, body, "Impersonate-Extra-Scopes: one")
	s.say("without a user: %d", a.code)
}

// health is asked about below the URL of a space as of a server.
func health(s *side) {
	for _, path := range []string{"/readyz", "/livez", "/healthz"} {
		a := s.quietly("GET", path, "")
		s.say("%s: %d %s", path, a.code, strings.TrimSpace(string(a.body)))
	}
}
