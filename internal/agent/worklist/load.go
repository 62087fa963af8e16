package worklist

import (
	"fmt"
	"hash/fnv"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Load makes the engine know what the store holds, before the workers start. What can
// be observed is queued only when its kind has been listed at the target.
func (e *Worklist) Load(st *store.Store) error {
	l := loader{e, st.Meta().Placing}
	if err := st.EachWant(l.want); err != nil {
		return fmt.Errorf("load desired content: %w", err)
	}
	if err := st.EachRecord(l.record); err != nil {
		return fmt.Errorf("load records: %w", err)
	}
	if err := st.EachReport(l.report); err != nil {
		return fmt.Errorf("load reports: %w", err)
	}
	e.Push((*Item).unobservable)
	return nil
}

// leftAs returns the hash of an object with a UID and fields.
func leftAs(uid string, fields ownership.FieldsHash) left {
	h := fnv.New64a()
	h.Write([]byte(uid)) // a hash takes every write
	return left(h.Sum64() ^ uint64(fields))
}

// loader loads a store into a worklist, entry by entry.
type loader struct {
	*Worklist
	placing key.Placing
}

// itemOf returns the item of an object of a space.
func (l loader) itemOf(o key.Object) *Item {
	located := l.placing.Locate(o)
	it, _ := l.item(located.Object, located.Moved)
	return it
}

func (l loader) want(o key.Object, w *store.Want) error {
	it := l.itemOf(o)
	it.learn(w)
	if w.Desired() {
		it.wanted = true
	}
	return nil
}

func (l loader) record(id key.Identity, r *store.Record) error {
	it, _ := l.item(key.Object{Space: r.Space, Identity: id}, r.Moved)
	if k := it.kind; k.version == "" {
		k.version, k.name = r.Version, r.Kind
	}
	if it.actor == nil {
		it.actsAs(r.Source.Policy.ServiceAccount)
	}
	if l.unseen == nil {
		l.unseen = map[*Item]left{}
	}
	l.unseen[it] = leftAs(r.UID, r.Fields)
	if !it.wanted {
		l.leaves.leaving(it, r.Space)
	}
	return nil
}

func (l loader) report(o key.Object, r *wire.Report) error {
	it := l.itemOf(o)
	l.counters.report(it, r.State)
	it.unreturned = int32(r.Omitted)
	return nil
}
