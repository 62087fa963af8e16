package worklist

import (
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/wire"
)

// now is the time at which tests take place.
var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func putWant() *store.Want {
	return &store.Want{
		Kind: store.WantPut, Leaf: store.Source{UID: "u", Digest: wire.SumOf([]byte("a"))}, Version: "v1", ObjectKind: "ConfigMap",
	}
}
