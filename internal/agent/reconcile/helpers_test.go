package reconcile

import (
	"context"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

func digest(s string) wire.Sum { return wire.SumOf([]byte(s)) }

func putWant(uid, content string) *store.Want {
	return &store.Want{Kind: store.WantPut, Leaf: store.Source{UID: uid, Digest: digest(content)}, Version: "v1", ObjectKind: "ConfigMap"}
}

func recordOf(space key.Space, uid, content string) *store.Record {
	return &store.Record{Space: space, Source: store.Source{UID: uid, Digest: digest(content)}, UID: "target-uid", Fields: 7, Version: "v1", Kind: "ConfigMap"}
}

// now is the time at which tests take place.
var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// endsWith returns a context that ends when a channel is closed.
func endsWith(t *testing.T, done <-chan struct{}) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-done
		cancel()
	}()
	return ctx
}
