package decide

import (
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

func digest(s string) wire.Sum { return wire.SumOf([]byte(s)) }

func putWant(content string) *store.Want {
	return &store.Want{Kind: store.WantPut, Leaf: store.Source{UID: "u", Digest: digest(content)}, Version: "v1", ObjectKind: "ConfigMap"}
}

func recordOf(space key.Space, content string) *store.Record {
	return &store.Record{Space: space, Source: store.Source{UID: "u", Digest: digest(content)}, UID: "target-uid", Fields: 7, Version: "v1", Kind: "ConfigMap"}
}
