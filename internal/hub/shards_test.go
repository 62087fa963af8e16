package hub_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
	"orrery.dev/orrery/test/protocol"
)

// TestShardsAreServedApart: each agent that shares a location joins by itself, gets what falls
// to its shard and no more, and reports that and no more; one of another number of shards, or
// with another's credential, is not heard.
func TestShardsAreServedApart(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	mine := key.NewShard(key.ShardOf("s", 2), 2) // that has the space of the fixture
	other := key.NewShard(3-mine.Number(), 2)
	agents := map[key.Shard]*protocol.Client{mine: r.joinShard("a", mine), other: r.joinShard("a", other)}
	if code := asks(t, agents[mine], mine); code != http.StatusConflict {
		t.Errorf("before the location is shared: %d", code)
	}
	if _, err := r.space(key.Root).Resource(locationsGVR).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"shards":2}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for shard, want := range map[key.Shard]int{mine: http.StatusOK, other: http.StatusOK} {
		if code := asks(t, agents[shard], shard); code != want {
			t.Errorf("%s: %d", shard, code)
		}
		if code := asks(t, agents[shard], key.NewShard(3-shard.Number(), 2)); code != http.StatusForbidden {
			t.Errorf("as another than %s: %d", shard, code)
		}
		if code := asks(t, agents[shard], key.NewShard(shard.Number(), 3)); code != http.StatusConflict {
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

// joinShard is an agent that has joined for a shard.
func (r *running) joinShard(l key.Location, shard key.Shard) *protocol.Client {
	r.t.Helper()
	var made v1alpha1.LocationToken
	_, body := r.as("op", masters).send("POST "+orreryOf(key.Root, "locations/"+string(l)+"/token"), fmt.Sprintf(`{"spec":{"shard":%d}}`, shard.Number()))
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

// asks opens a session for a shard, and checks that it has exactly what falls to that. It
// returns the code of the answer.
func asks(t *testing.T, c *protocol.Client, shard key.Shard) int {
	t.Helper()
	body, err := c.Do(t.Context(), http.MethodGet, route.Desired+"?shard="+shard.String(), http.NoBody)
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
	if has := f.Hello.Count > 0; has != shard.Has("s") {
		t.Errorf("shard %s has %d objects", shard, f.Hello.Count)
	}
	return http.StatusOK
}
