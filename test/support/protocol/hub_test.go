package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestStandInHub shows that the fake hub keeps the contract.
func TestStandInHub(t *testing.T) {
	lacks := Lacks{
		"Impersonates":    "no location of the fake hub has spec.admit",
		"ImpersonatesNot": "the same", "Admits": "the same",
		"Confirmed": "no deletion waits for a confirmation",
	}
	maps.Copy(lacks, Before())
	TestHub(t, lacks, func(t *testing.T, test func(*testing.T, States)) {
		synctest.Test(t, func(t *testing.T) { test(t, &standIn{Hub: NewHub("paris")}) })
	})
}

// standIn implements States for the fake hub.
type standIn struct {
	*Hub
	made int
	copy int64
}

func (s *standIn) put(name, value string, policy wire.Policy) {
	k := KeyOf(name)
	uid, generation := fmt.Sprint("uid-", s.made+1), int64(1)
	if f := s.content(s.Revision())[k]; f.Put != nil {
		uid, generation = f.Put.UID, f.Put.Generation+1
	} else {
		s.made++
	}
	object := fmt.Appendf(nil, `{"apiVersion":"v1","data":{"k":%q},"kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"}}`, value, name)
	s.Write(wire.Frame{Put: &wire.Put{Key: k, UID: uid, Generation: generation, Digest: wire.SumOf(object), Policy: policy, Object: object}})
}

func (s *standIn) Desire(name, value string) { s.put(name, value, wire.Policy{}) }
func (s *standIn) Protect(name string)       { s.put(name, "1", wire.Policy{CreateOnly: true}) }

func (s *standIn) Await(string) {}

func (s *standIn) Hold(name string) {
	s.Write(wire.Frame{Hold: &wire.Hold{Key: KeyOf(name), UID: "uid-1", Digest: wire.SumOf([]byte("hold")), Reason: v1alpha1.ReasonSuspended, Error: "a rule fails"}})
}

func (s *standIn) Conflict(name string) {
	s.Write(wire.Frame{Conflict: &wire.Conflict{Key: KeyOf(name), UID: "uid-1", Digest: wire.SumOf([]byte("conflict")), Owner: "t" + KeyOf(name)[1:]}})
}

func (s *standIn) Impersonate(string) {}
func (s *standIn) Admit(bool)         {}

func (s *standIn) Upsync(names ...string) {
	s.Set(func(now *wire.Settings) {
		if now.Upsync = nil; len(names) > 0 {
			now.Upsync = []wire.Upsync{{Space: "s", Group: "core", Resources: []string{"configmaps"}, Names: slices.Sorted(slices.Values(names))}}
			now.UpsyncObjects, now.UpsyncBytes = cmp.Or(now.UpsyncObjects, 1000), 1<<20
		}
	})
	for k, f := range s.content(s.Revision()) {
		o, err := key.ParsePath(k)
		if err != nil {
			panic(err)
		}
		switch isRequested := slices.Contains(names, o.Name); {
		case isRequested && f.Put != nil:
			s.Write(wire.Frame{Hold: &wire.Hold{Key: k, UID: f.Put.UID, Digest: wire.SumOf([]byte("yield")), Reason: v1alpha1.ReasonUpsynced, Error: "it is requested"}})
		case !isRequested && f.Hold != nil && f.Hold.Reason == v1alpha1.ReasonUpsynced:
			s.put(o.Name, "1", wire.Policy{})
		}
	}
}

func (s *standIn) Bound(objects int) {
	s.Set(func(now *wire.Settings) { now.UpsyncObjects = objects })
}

func (s *standIn) Associate(name string) {
	s.put(name, "1", wire.Policy{Associated: "core/configmaps"})
}

func (s *standIn) Delete(name string)   { s.Del(KeyOf(name), wire.Deleted) }
func (s *standIn) Unassign(name string) { s.Del(KeyOf(name), wire.Unassigned) }

func (s *standIn) Pause(paused bool) {
	s.Set(func(now *wire.Settings) {
		if now.Halt = ""; paused {
			now.Halt = "the location's mapping is Paused"
		}
	})
}

func (s *standIn) Prune(percent int) {
	s.Set(func(now *wire.Settings) { now.PruneMaxPercent = percent })
}
func (s *standIn) Accept(marker string) { s.Set(func(now *wire.Settings) { now.Accept = marker }) }
func (s *standIn) Purge(purged bool)    { s.Set(func(now *wire.Settings) { now.Purge = purged }) }
func (s *standIn) Backup()              { s.copy = s.Revision() }
func (s *standIn) Restore()             { s.Hub.Restore(s.copy) }
