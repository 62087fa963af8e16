package worklist

import (
	"fmt"
	"runtime"
	"testing"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// BenchmarkMemory measures what the engine keeps of each object that is at rest.
func BenchmarkMemory(b *testing.B) {
	const objects = 50_000
	for b.Loop() {
		before := inUse()
		e := New()
		for i := range objects {
			o := key.Object{Space: "s", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "whole", Name: fmt.Sprintf("object-%05d", i)}}
			e.Touch([]store.Touched{{Object: o, Want: putWant()}})
			it, _ := e.Next(b.Context())
			e.Finish(it, Result{
				Wanted: true, State: wire.Applied, Seen: &decide.Observed{
					Existence: decide.Present, UID: fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i), Revision: uint64(i), Fields: 7, Log: ownership.NewPair("m", 5),
				},
			})
		}
		b.ReportMetric(float64(inUse()-before)/objects, "heap-B/object")
		runtime.KeepAlive(e)
	}
}

func inUse() uint64 {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
