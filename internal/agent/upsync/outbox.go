package upsync

import (
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// change sets the report of a line, or removes it.
type change struct {
	line   string
	report *wire.Report
}

// outbox collects the changes of reports for the store. It also knows the lines in the store whose objects were
// not observed yet: these are unclaimed.
type outbox struct {
	// unclaimed has the sizes of the reports.
	unclaimed map[string]int
	changes   []change // in order
	budget    *budget
}

// load adds a line that the store has from an earlier process.
func (o *outbox) load(line string, origin key.Origin, size int) {
	o.expect(line, size)
	if origin == key.Upsynced {
		o.budget.add(size)
	}
}

// expect makes a line unclaimed whose report is part of the budget already.
func (o *outbox) expect(line string, size int) { o.unclaimed[line] = size }

// isUnclaimed reports whether the store has a line whose object was not observed yet.
func (o *outbox) isUnclaimed(line string) bool {
	_, ok := o.unclaimed[line]
	return ok
}

// claim makes a line known whose object is observed now. It returns false if it was not unclaimed.
func (o *outbox) claim(line string, origin key.Origin) bool {
	size, ok := o.unclaimed[line]
	if !ok {
		return false
	}
	delete(o.unclaimed, line)
	if origin == key.Upsynced {
		o.budget.release(size)
	}
	return true
}

// set sets the report of a line.
func (o *outbox) set(line string, r *wire.Report) { o.changes = append(o.changes, change{line, r}) }

// remove removes the report of a line.
func (o *outbox) remove(line string) { o.set(line, nil) }

// removeUnclaimed removes the report of a line if it is unclaimed.
func (o *outbox) removeUnclaimed(line string, origin key.Origin) {
	if o.claim(line, origin) {
		o.remove(line)
	}
}

// removeEach removes all unclaimed reports for which matches returns true.
func (o *outbox) removeEach(matches func(key.Report) bool) {
	for line := range o.unclaimed {
		if r, err := key.ParseLine("", line); err == nil && matches(r) {
			o.removeUnclaimed(line, r.Origin)
		}
	}
}

// take returns the changes since the last call.
func (o *outbox) take() []change {
	all := o.changes
	o.changes = nil
	return all
}

// lineOf returns the line of an object's report.
func lineOf(origin key.Origin, o key.Object) string {
	return key.Report{Origin: origin, Object: o}.Line()
}
