package upsync

import (
	"fmt"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// BenchmarkManyRequests measures one object while the hub requests the maximum number of kinds of one frame.
func BenchmarkManyRequests(b *testing.B) {
	requested := all
	for i := range 10_000 {
		requested = append(requested, wire.Upsync{Space: "t", Group: "example.com", Resources: []string{fmt.Sprintf("widgets%d", i)}})
	}
	l := newLedger(newRequests(requested, key.Same), limits{10, 1 << 20})
	k := l.graph.observe(configMaps, true, true)
	s := seen(b, k, "a", `}`)
	for b.Loop() {
		l.see(s, time.Time{})
	}
}

// BenchmarkRefill measures the search for one more report of 50,000 waiting objects.
func BenchmarkRefill(b *testing.B) {
	l := newLedger(newRequests(all, key.Same), limits{10, 1 << 20})
	k := l.graph.observe(configMaps, true, true)
	for i := range 50_000 {
		l.see(seen(b, k, fmt.Sprintf("a%d", i), `}`), time.Time{})
	}
	l.upsynced.budget.limits.objects++
	for b.Loop() {
		l.upsynced.budget.freed = true
		clear(l.reads.needed)
		l.upsynced.refill()
	}
}

// BenchmarkOwned measures one of 5,000 objects that belong to a placed one.
func BenchmarkOwned(b *testing.B) {
	l := newLedger(newRequests(nil, key.Same), limits{10, 1000})
	k := l.graph.observe(pods, true, true)
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
