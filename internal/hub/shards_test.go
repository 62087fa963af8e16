package hub_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// TestShardsAreServedApart: each agent that shares a location joins separately. It receives only the objects of
// its shard, and may report only those. Agents with another number of shards, or with the credential of another
// shard, are refused.
func TestShardsAreServedApart(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	mine := key.NewShard(key.ShardOf("s", 2), 2) // that has the space of the fixture
	other := key.NewShard(3-mine.Number(), 2)
	agents := map[key.Shard]*protocol.Client{mine: r.joinShard(mine), other: r.joinShard(other)}
	if code := openShard(t, agents[mine], mine); code != http.StatusConflict {
		t.Errorf("before the location is shared: %d", code)
	}
	r.share()
	for shard, want := range map[key.Shard]int{mine: http.StatusOK, other: http.StatusOK} {
		if code := openShard(t, agents[shard], shard); code != want {
			t.Errorf("%s: %d", shard, code)
		}
		if code := openShard(t, agents[shard], key.NewShard(3-shard.Number(), 2)); code != http.StatusForbidden {
			t.Errorf("as another than %s: %d", shard, code)
		}
		if code := openShard(t, agents[shard], key.NewShard(shard.Number(), 3)); code != http.StatusConflict {
			t.Errorf("%s as one of three: %d", shard, code)
		}
	}

	report := wire.ReportLine{Key: "s/core/configmaps/default/one", Report: &wire.Report{UID: "u", State: wire.Applied}}
	for shard, refused := range map[key.Shard]int{mine: 0, other: 1} {
		body, err := agents[shard].Do(t.Context(), http.MethodPost, route.Reports+"?shard="+shard.String(), bytes.NewReader(protocol.Lines(report)))
		if err != nil {
			t.Fatal(err)
		}
		var answer wire.ReportsAnswer
		if err := errors.Join(json.NewDecoder(body).Decode(&answer), body.Close()); err != nil || len(answer.Refused) != refused {
			t.Errorf("%s reports: %+v %v", shard, answer, err)
		}
	}
}

// joinShard is an agent that has joined location a for a shard.
func (r *running) joinShard(shard key.Shard) *protocol.Client {
	r.t.Helper()
	var made v1alpha1.LocationToken
	_, body := r.as("op", masters).send("POST "+orreryOf(key.Root, "locations/a/token"), fmt.Sprintf(`{"spec":{"shard":%d}}`, shard.Number()))
	if err := json.Unmarshal([]byte(body), &made); err != nil {
		r.t.Fatalf("%s: %v", body, err)
	}
	join, err := wire.ParseJoin(made.Status.Token)
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := protocol.NewClient(join)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

// openShard opens a session for a shard, and checks that it contains exactly the objects of the shard. It
// returns the code of the response.
func openShard(t *testing.T, c *protocol.Client, shard key.Shard) int {
	t.Helper()
	var body io.ReadCloser
	err := tries(func() (err error) {
		body, err = c.Do(t.Context(), http.MethodGet, route.Desired+"?shard="+shard.String(), http.NoBody)
		return err
	})
	if refused, ok := errors.AsType[*protocol.RefusedError](err); ok {
		return refused.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	var f wire.Frame
	if err := json.NewDecoder(body).Decode(&f); err != nil || f.Hello == nil {
		t.Fatalf("%+v %v", f, err)
	}
	if received := f.Hello.Count > 0; received != shard.Contains("s") {
		t.Errorf("shard %s has %d objects", shard, f.Hello.Count)
	}
	return http.StatusOK
}

// TestShardReadsItsOwn: with the credential of a shard, a client reads only the objects of that shard: by the API
// of the location's view, by the calls of agents, and in reports.
func TestShardReadsItsOwn(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	one := wire.ReportLine{Key: "s/core/configmaps/default/one", Report: &wire.Report{UID: "u", State: wire.Applied}}
	mine := key.NewShard(key.ShardOf("s", 2), 2)
	other := key.NewShard(3-mine.Number(), 2)
	agents := map[key.Shard]*protocol.Client{mine: r.joinShard(mine), other: r.joinShard(other)}
	first := key.NewShard(1, 2)
	view := "/views/locations/a/api/v1/configmaps"
	if code := reads(t, agents[first], view); code != http.StatusOK {
		t.Errorf("the agent of the whole reads what its location has: %d", code)
	}
	if code := reads(t, agents[key.NewShard(2, 2)], view); code != http.StatusForbidden {
		t.Errorf("with the credential of another shard: %d", code)
	}
	r.share()
	for shard, c := range agents {
		if code := reads(t, c, route.Agent("a").Path(route.Desired)+"?shard="+shard.String()); code != http.StatusOK {
			t.Errorf("shard %s reads what is its own: %d", shard, code)
		}
		for _, path := range []string{
			view, view + "?watch=1", "/views/locations/a/api/v1/namespaces/default/configmaps/one", "/views/locations/b/api/v1/configmaps",
			"/spaces/s/api/v1/configmaps", "/spaces/root/apis/orrery.dev/v1alpha1/locations", "/ask/v1/spaces/s/status",
			"/views/spaces/s/locations/a/api/v1/configmaps", "/agent/v1/locations/b/desired?shard=" + shard.String(), "/metrics",
		} {
			if code := reads(t, c, path); code != http.StatusForbidden && code != http.StatusNotFound {
				t.Errorf("shard %s reads %s: %d", shard, path, code)
			}
		}
	}
	if _, err := agents[mine].Do(t.Context(), http.MethodPost, route.Reports+"?shard="+mine.String(), bytes.NewReader(protocol.Lines(one))); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{route.Fetch, route.ReportsFetch} {
		for shard, c := range agents {
			got := answerOf(t, c, call+"?shard="+shard.String(), protocol.Lines(wire.Fetch{Key: one.Key}))
			if contained := strings.Contains(got, `"uid"`); contained != (shard == mine) {
				t.Errorf("shard %s fetches by %s: %s", shard, call, got)
			}
		}
	}
	for _, call := range []string{route.Walk, route.ReportsWalk} {
		for shard, c := range agents {
			got := answerOf(t, c, call+"?shard="+shard.String(), protocol.Lines(wire.Walk{}, wire.Span{}))
			if contained := strings.Contains(got, `"s/core/`); contained != (shard == mine) {
				t.Errorf("shard %s walks by %s: %s", shard, call, got)
			}
		}
	}
}

// TestNamespacesOfShards: the agent of each shard learns which Namespaces are desired at the location in any of its
// shards, so that it leaves them to the agent that has them: placed and held ones, and none that are no longer placed.
func TestNamespacesOfShards(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	shard := key.NewShard(3-key.ShardOf("s", 2), 2) // which does not have the space
	agent := r.joinShard(shard)
	r.share()
	names := func(want ...string) {
		t.Helper()
		r.eventually(func() string {
			var answer wire.NamespacesResponse
			request := wire.NamespacesRequest{Names: []string{"default", "held", "missing", "other", "placed"}}
			text := answerOf(t, agent, route.Namespaces+"?shard="+shard.String(), protocol.Lines(request))
			if err := json.Unmarshal([]byte(text), &answer); err != nil || !slices.Equal(answer.Desired, want) {
				return fmt.Sprintf("the hub answers %s, want %q: %v", text, want, err)
			}
			return ""
		})
	}
	names()
	app := map[string]string{"what": "app"}
	r.create("s", namespacesGVR, object("v1", "Namespace", "", "other", nil, nil))
	r.create("s", namespacesGVR, object("v1", "Namespace", "", "placed", app, nil))
	held := object("v1", "Namespace", "", "held", app, nil)
	held.SetAnnotations(map[string]string{"orrery.dev/expand": "true", "site": "${location.properties.missing}"})
	r.create("s", namespacesGVR, held)
	names("held", "placed")
	if err := r.space("s").Resource(namespacesGVR).Delete(t.Context(), "placed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	names("held")
}

// TestRevokedShards: to revoke a location's enrolment locks out all its agents; one that joins
// again lets in none of the others.
func TestRevokedShards(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	first, second := key.NewShard(1, 2), key.NewShard(2, 2)
	a, b := r.joinShard(first), r.joinShard(second)
	r.share()
	if openShard(t, a, first) != http.StatusOK || openShard(t, b, second) != http.StatusOK {
		t.Fatal("they are refused")
	}
	if code, body := r.as("op", masters).send("DELETE "+orreryOf(key.Root, "locations/a/token"), ""); code != http.StatusOK {
		t.Fatal(code, body)
	}
	for shard, c := range map[key.Shard]*protocol.Client{first: a, second: b} {
		if code := openShard(t, c, shard); code != http.StatusUnauthorized {
			t.Errorf("shard %s, which was revoked: %d", shard, code)
		}
	}
	again := r.joinShard(second)
	if code := openShard(t, again, second); code != http.StatusOK {
		t.Errorf("the second, which has joined again: %d", code)
	}
	for shard, c := range map[key.Shard]*protocol.Client{first: a, second: b} {
		if code := openShard(t, c, shard); code != http.StatusUnauthorized {
			t.Errorf("shard %s, which was revoked, after the second has joined again: %d", shard, code)
		}
	}
}

// TestAgentWithoutShards: the hub refuses an agent of a version without shards if several agents share the
// location. An agent with --shards refuses a hub whose responses name no shard.
func TestAgentWithoutShards(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	old := r.joinShard(key.NewShard(1, 2))
	whole := func() int {
		_, err := old.Do(t.Context(), http.MethodGet, route.Desired, http.NoBody)
		if refused, ok := errors.AsType[*protocol.RefusedError](err); ok {
			return refused.Code
		}
		return http.StatusOK
	}
	if code := whole(); code != http.StatusOK {
		t.Errorf("where it is the only one: %d", code)
	}
	r.share()
	if code := whole(); code != http.StatusConflict {
		t.Errorf("where two share the location: %d", code)
	}
}

// share has two agents share location a.
func (r *running) share() {
	r.t.Helper()
	if _, err := r.space(key.Root).Resource(locationsGVR).Patch(r.t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"shards":2}}`), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// reads is the code of the answer to an agent that reads a path of the hub.
func reads(t *testing.T, c *protocol.Client, path string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimRight(c.Join.Hub, "/")+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(wire.Header, wire.ProtocolVersion)
	resp, err := c.HTTP.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if requested := r.URL.Query().Get(wire.ShardParam); resp.StatusCode == http.StatusOK && resp.Header.Get(wire.ShardHeader) != requested {
		t.Errorf("%s is answered for shard %q", path, resp.Header.Get(wire.ShardHeader))
	}
	return resp.StatusCode
}

// answerOf is what an agent is answered to a call.
func answerOf(t *testing.T, c *protocol.Client, call string, body []byte) string {
	t.Helper()
	answer, err := c.Do(t.Context(), http.MethodPost, call, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(answer)
	if err := errors.Join(err, answer.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}
