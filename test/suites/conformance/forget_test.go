package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// window is how many revisions a forgetful space remembers.
const window = 20

// forgetful are behaviours of servers that forget.
func forgetful() []behaviour {
	return []behaviour{
		{name: "watch of what is forgotten", run: watchOfTheForgotten},
		{name: "list of what is forgotten", run: listOfTheForgotten},
		{name: "pages of what is forgotten", run: pagesOfTheForgotten},
	}
}

// fillWindow writes until the window has left what was before.
func fillWindow(s *side) error {
	for i := range 2 * window {
		s.quietly(http.MethodPut, s.in("configmaps", "a"), configMap("a", "n="+fmt.Sprint(i)))
	}
	return nil
}

// compact compacts etcd up to the newest revision, and records the compaction for the API server as
// another API server would.
func compact(ctx context.Context, url string) error {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: timeout})
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	now, err := etcd.Get(ctx, "/registry/none")
	if err != nil {
		return err
	}
	if _, err := etcd.Compact(ctx, now.Header.Revision); err != nil {
		return err
	}
	_, err = etcd.Put(ctx, "compact_rev_key", strconv.FormatInt(now.Header.Revision, 10))
	return err
}

// forgets makes the side forget, and waits until it has forgotten a revision.
func (s *side) forgets(rv string) {
	if err := s.forget(s); err != nil {
		s.say("forget: %v", err)
	}
	deadline := time.After(timeout)
	for {
		a, err := s.do(http.MethodGet, s.in("configmaps")+"?resourceVersionMatch=Exact&resourceVersion="+rv, "")
		if err == nil && a.code == http.StatusGone {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			s.say("revision %s is still known: %v %d", rv, err, a.code)
			return
		}
	}
}

// watchOfTheForgotten watches a resource from a revision before the resource was created. The watch
// cache of a real server does not contain that revision.
func watchOfTheForgotten(s *side) {
	s.create("a")
	group := s.ns + ".example.org"
	s.define(group, `{"type":"object"}`)
	widgets := s.inGroup(group+"/v1", "widgets")
	s.quietly(http.MethodPost, widgets, `{"apiVersion":"`+group+`/v1","kind":"Widget","metadata":{"name":"w"}}`)
	s.forgets("1")
	s.watch(widgets + "?watch=true&resourceVersion=1").take(2)
	s.watch(widgets + "?watch=true&allowWatchBookmarks=true&resourceVersion=1&fieldSelector=metadata.name=w").take(2)
	w := s.watch(widgets + "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=1")
	w.names("w")
}

func listOfTheForgotten(s *side) {
	first := s.create("a")
	s.create("b")
	s.forgets(first.rv())
	for _, query := range []string{"resourceVersionMatch=Exact&resourceVersion=" + first.rv(), "limit=1&resourceVersion=" + first.rv()} {
		s.get(s.in("configmaps") + "?" + query)
	}
	for _, query := range []string{"resourceVersion=" + first.rv(), "resourceVersionMatch=NotOlderThan&resourceVersion=" + first.rv()} {
		s.say("%s: %v", strings.SplitN(query, "=", 2)[0], namesOf(s.quietly(http.MethodGet, s.in("configmaps")+"?"+query, "")))
	}
}

func pagesOfTheForgotten(s *side) {
	s.create("a")
	s.create("b")
	s.create("c")
	s.forgets("1")
	// As from a page of long ago; what a page has begun is kept for a while.
	old := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":1,"start":"/"}`))
	expired := s.get(s.in("configmaps") + "?limit=1&continue=" + old)
	a := s.quietly(http.MethodGet, s.in("configmaps")+"?limit=2&continue="+token(expired), "")
	s.say("goes on with what is: %v, more: %v", namesOf(a), a.text("metadata", "continue") != "")
}
