package upsync

import (
	"fmt"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// BenchmarkManyAsks is one object seen where the hub asks for as many kinds as one frame takes.
func BenchmarkManyAsks(b *testing.B) {
	asked := all
	for i := range 10_000 {
		asked = append(asked, wire.Upsync{Space: "t", Group: "example.com", Resources: []string{fmt.Sprintf("widgets%d", i)}})
	}
	l := newLedger(newAsks(asked, key.Same), limits{10, 1 << 20})
	k := l.observes(configMaps, true, true)
	s := seen(b, k, "a", `}`)
	for b.Loop() {
		l.see(s, time.Time{})
	}
}

// BenchmarkRefill is room for one more where 50,000 wait.
func BenchmarkRefill(b *testing.B) {
	l := newLedger(newAsks(all, key.Same), limits{10, 1 << 20})
	k := l.observes(configMaps, true, true)
	for i := range 50_000 {
		l.see(seen(b, k, fmt.Sprintf("a%d", i), `}`), time.Time{})
	}
	l.limits.objects++
	for b.Loop() {
		l.freed = true
		clear(l.needs)
		l.refill()
	}
}

// BenchmarkOwned is one object seen of the 5,000 that belong to a placed one.
func BenchmarkOwned(b *testing.B) {
	l := newLedger(newAsks(nil, key.Same), limits{10, 1000})
	k := l.observes(pods, true, true)
	source := key.Object{Space: "s", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "n", Name: "r"}}
	l.place(source.Identity.String(), store.Root{Source: source, Identity: source.Identity, UID: "uid-r", Associated: "core/pods"}, true)
	all := make([]*sighting, 5_000)
	for i := range all {
		all[i] = seen(b, k, fmt.Sprintf("p%d", i), `,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"r","uid":"uid-r","controller":true}]}`)
	}
	for _, s := range all {
		l.see(s, time.Time{})
	}
	for i := 0; b.Loop(); i++ {
		l.see(all[i%len(all)], time.Time{})
	}
}
