package mapper

import (
	"fmt"
	"slices"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/wire"
)

// load tells the engine what the store holds. Items that can be observed are queued only
// when their kind has been listed at the target.
func (a *Agent) load() error {
	a.identify()
	a.gate.setHalt(a.store.Meta().Halt())
	if err := a.store.EachWant(a.loadWant); err != nil {
		return fmt.Errorf("load desired content: %w", err)
	}
	if err := a.store.EachRecord(a.loadRecord); err != nil {
		return fmt.Errorf("load records: %w", err)
	}
	if err := a.store.EachReport(a.loadReport); err != nil {
		return fmt.Errorf("load reports: %w", err)
	}
	a.engine.push((*item).unobservable)
	return nil
}

func (a *Agent) loadWant(o key.Object, w *store.Want) error {
	it := a.engine.loadItem(o)
	it.wanted = true
	a.engine.learn(it, w)
	return nil
}

func (a *Agent) loadRecord(id key.Identity, r *store.Record) error {
	it := a.engine.loadItem(key.Object{Space: r.Space, Identity: id})
	if k := it.kind; k.version == "" {
		k.version, k.name = r.Version, r.Kind
	}
	if !it.wanted {
		a.engine.leaves.leaving(it, r.Space)
	}
	return nil
}

func (a *Agent) loadReport(o key.Object, r *wire.Report) error {
	a.engine.count(a.engine.loadItem(o), r.State)
	return nil
}

// loadItem finds or makes the item of an object, before the workers start.
func (e *engine) loadItem(o key.Object) *item {
	it, _ := e.item(o)
	if !slices.Contains(it.spaces, o.Space) {
		it.spaces = append(it.spaces, o.Space)
	}
	return it
}
