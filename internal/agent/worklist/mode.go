package worklist

// Mode is what workers may do with the items of a worklist.
type Mode uint8

const (
	// Closed: no item is given to a worker.
	Closed Mode = iota
	// Observing: items are given to workers, which read and report, and change nothing at the
	// target.
	Observing
	// Open: workers change the target, too.
	Open
)

// permission is what workers may do now. It is guarded by the engine's lock.
type permission struct {
	mode Mode
	why  string // the mode is not Open
	// withheld has the items whose changes wait until the mode is Open.
	withheld map[*Item]struct{}
}

// set changes the mode. It returns the items whose changes wait no more.
func (p *permission) set(m Mode, why string) (freed map[*Item]struct{}) {
	if p.mode, p.why = m, why; m == Open {
		freed, p.withheld = p.withheld, nil
	}
	return freed
}

// halt is why a turn that begins now must not change anything at the target; empty: it may.
func (p *permission) halt() string {
	if p.mode == Observing {
		return p.why
	}
	return ""
}

// withhold records that the change of an item waits until the mode is Open. It returns false if that
// is so already.
func (p *permission) withhold(it *Item) (waits bool) {
	if p.mode == Open { // it has opened during the turn
		return false
	}
	if p.withheld == nil {
		p.withheld = map[*Item]struct{}{}
	}
	p.withheld[it] = struct{}{}
	return true
}

// forget records that no change of an item waits.
func (p *permission) forget(it *Item) { delete(p.withheld, it) }
