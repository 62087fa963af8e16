package reconcile

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestDiagnosisOfAnotherAccount: a diagnosis that was read with the rights of an account is not reported when another
// one acts for the object.
func TestDiagnosisOfAnotherAccount(t *testing.T) {
	const id = "apps/deployments/n/web"
	identity, err := key.ParseIdentity(id)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.TempDir(), "paris", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { s.Run(endsWith(t, done)) })
	t.Cleanup(func() {
		close(done)
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	engine := worklist.New()
	t.Cleanup(engine.Stop)
	desire := func(account string) {
		t.Helper()
		object := []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"n"}}`)
		a, err := store.Admit(wire.Frame{Put: &wire.Put{Key: "s/" + id, UID: "source", Digest: wire.SumOf(object), Policy: wire.Policy{ServiceAccount: account}, Object: object}})
		if err != nil {
			t.Fatal(err)
		}
		var all []store.Touched
		if err := s.Write(t.Context(), func(x *store.Tx) (err error) {
			all, _, err = store.Intake{Proven: true}.Apply(x, []store.Arrival{a}, time.Now())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		engine.Touch(all)
	}
	if err := s.Write(t.Context(), func(x *store.Tx) error {
		return x.Observed.Set(id, &store.Live{UID: "u", IsSuspect: true, Health: wire.Progressing, Diagnosis: &store.Diagnosis{Text: "no image", Account: "n/one"}})
	}); err != nil {
		t.Fatal(err)
	}
	r := New(Config{Store: s, Engine: engine, State: hubclient.NewState(), Log: slog.New(slog.DiscardHandler)})
	for account, want := range map[string]string{"n/one": "no image", "n/two": "", "": ""} {
		desire(account)
		it, ok := engine.Find(identity)
		if !ok {
			t.Fatal("the worklist does not have the object")
		}
		turn, err := r.read(it)
		if err != nil {
			t.Fatal(err)
		}
		if got := turn.live.Diagnosed(); got != want {
			t.Errorf("with the account %q the diagnosis is %q, want %q", account, got, want)
		}
	}
}
