package hubclient

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/wire"
)

var quiet = slog.New(slog.DiscardHandler)

// now is the fixed time of the tests.
var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// opened returns a new store that is closed at the end of the test.
func opened(t testing.TB) *store.Store {
	t.Helper()
	// No test needs data to survive a power failure.
	s, err := store.OpenWith(bolt.Options{NoSync: true, NoGrowSync: true, Timeout: time.Millisecond}, t.TempDir(), "paris", nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// put returns a put frame for a ConfigMap with a key.
func put(k, uid, content string) wire.Frame {
	object := fmt.Appendf(nil, `{"apiVersion":"v1","data":{"v":%q},"kind":"ConfigMap"}`, content)
	return wire.Frame{Put: &wire.Put{Key: k, UID: uid, Digest: wire.SumOf(object), Object: object}}
}

func del(k string, cause wire.Cause) wire.Frame {
	return wire.Frame{Del: &wire.Del{Key: k, Cause: cause}}
}

func digest(s string) wire.Sum { return wire.SumOf([]byte(s)) }
