package faults

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/protocol"
)

// TestEnrolmentAtTwoHubs runs two hubs that share an etcd, a certificate authority and the keys. An
// enrolment or revocation at one hub takes effect at the other immediately. Of two agents that use
// a join token at the same time, one succeeds.
func TestEnrolmentAtTwoHubs(t *testing.T) {
	t.Parallel()
	etcd := env.StartEtcd(t)
	hubs := []*env.Hub{env.StartHub(t, "--etcd-servers", etcd.URL), env.StartHub(t, "--etcd-servers", etcd.URL)}
	hubs[1].Stop()
	for _, name := range []string{"ca.crt", "ca.key", "encryption.yaml"} {
		content, err := os.ReadFile(filepath.Join(hubs[0].Dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(hubs[1].Dir, name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hubs[1].Start()
	env.Orrery(t, hubs[0].Kubeconfig, "location", "add", "edge")
	// tokens creates a join token at one hub, and returns it once with the URL of each hub.
	tokens := func(made int) (joins [2]wire.Join) {
		t.Helper()
		join, err := wire.ParseJoin(strings.TrimSpace(env.Orrery(t, hubs[made].Kubeconfig, "location", "token", "edge", "--token-only")))
		if err != nil {
			t.Fatal(err)
		}
		for i := range joins {
			joins[i] = join
			joins[i].Hub = hubs[i].URL
		}
		return joins
	}
	for round := range 5 { // a location gets no more than 20 credentials at once
		joins := tokens(round % 2)
		type outcome struct {
			id  *protocol.Identity
			err error
		}
		outcomes := make(chan outcome, len(joins))
		for _, join := range joins {
			go func() {
				id, err := protocol.Enrol(t.Context(), join)
				outcomes <- outcome{id, err}
			}()
		}
		var won []*protocol.Identity
		for range joins {
			if o := <-outcomes; o.err == nil {
				won = append(won, o.id)
			} else if !strings.Contains(o.err.Error(), string(wire.RefusedJoinUsed)) {
				t.Errorf("round %d: %v", round, o.err)
			}
		}
		if len(won) != 1 {
			t.Fatalf("round %d: %d have joined", round, len(won))
		}
		// Both hubs accept the certificate and its renewal.
		id := won[0]
		for _, hub := range hubs {
			id.Join.Hub = hub.URL
			next, err := id.Renew(t.Context())
			if err != nil {
				t.Fatalf("round %d: renew at %s: %v", round, hub.URL, err)
			}
			id = next
		}
	}
	join := tokens(0)
	id, err := protocol.Enrol(t.Context(), join[1])
	if err != nil {
		t.Fatal(err)
	}
	client, err := id.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	open, err := client.Open(t.Context(), 0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	revoked := time.Now()
	env.Orrery(t, hubs[0].Kubeconfig, "location", "revoke", "edge")
	for {
		f, err := open.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Bye != nil {
			t.Logf("the session at the other hub ended after %s: %+v", time.Since(revoked), f.Bye)
			break
		}
	}
	_, err = client.Open(t.Context(), 0, "")
	var refused *protocol.RefusedError
	if !errors.As(err, &refused) || refused.Code != http.StatusUnauthorized || !strings.Contains(string(refused.Body), string(wire.RefusedRevoked)) {
		t.Errorf("after the revocation: %v", err)
	}
	again := tokens(0)
	if id, err = protocol.Enrol(t.Context(), again[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := id.Renew(t.Context()); err != nil {
		t.Error(err)
	}
}
