package mapper

import (
	"encoding/json"
	"fmt"
	"slices"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// load makes the engine know what the store holds. What can be observed is
// queued only when its kind has been listed at the target.
func (a *Agent) load() error {
	a.identify()
	a.gate.setHalt(a.store.meta.Load().halt())
	if err := a.store.scan(desiredBucket, a.loadWants); err != nil {
		return fmt.Errorf("load desired content: %w", err)
	}
	if err := a.store.scan(recordBucket, a.loadRecords); err != nil {
		return fmt.Errorf("load records: %w", err)
	}
	if err := a.store.scan(reportBucket, a.loadReports); err != nil {
		return fmt.Errorf("load reports: %w", err)
	}
	a.engine.pushUnobservable()
	return nil
}

func (a *Agent) loadWants(_ *tx, k string, v []byte) error {
	w, _, err := decodeWant(v)
	if err != nil {
		return err
	}
	o, err := key.ParsePath(k)
	if err != nil {
		return err
	}
	it := a.engine.loadItem(o)
	it.wanted = true
	a.engine.learn(it, &w)
	return nil
}

func (a *Agent) loadRecords(_ *tx, k string, v []byte) error {
	var r record
	if err := json.Unmarshal(v, &r); err != nil {
		return err
	}
	it := a.engine.loadItem(key.Object{Space: r.Space, Identity: parseIdentity(k)})
	if k := it.kind; k.version == "" {
		k.version, k.name = r.Version, r.Kind
	}
	if !it.wanted {
		a.engine.leaving(it, r.Space)
	}
	return nil
}

func (a *Agent) loadReports(_ *tx, k string, v []byte) error {
	var r wire.Report
	if err := json.Unmarshal(v, &r); err != nil {
		return err
	}
	o, err := key.ParsePath(k)
	if err != nil {
		return err
	}
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

// pushUnobservable queues items of which only a report is left.
func (e *engine) pushUnobservable() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, it := range e.items {
		if it.kind.version == "" {
			e.queue.push(it)
		}
	}
}
