package table

// Condition is a condition on the row of one key. A subscription ends when one of its conditions no
// longer holds.
type Condition struct {
	// Key is the key of the row.
	Key string
	// IsMet reports whether the condition holds for the row, which is nil if the key does not exist.
	// It is called when the subscription starts, and after each change of the row, by the goroutine
	// that subscribes or polls. No lock is held, so it may read the table.
	IsMet func(*Row) bool
	// End is the error with which the subscription ends.
	End error
}

// ObjectExists returns the condition that an object exists, is not being deleted, and was created at
// rev or before: a later object of the same name does not count.
func ObjectExists(k string, rev int64, end error) Condition {
	return Condition{Key: k, End: end, IsMet: func(row *Row) bool {
		return row != nil && !row.Meta.Deleting && row.CreateRev <= rev
	}}
}

// WithEnd returns copies of conditions with End set to end.
func WithEnd(conditions []Condition, end error) []Condition {
	var all []Condition
	for _, c := range conditions {
		c.End = end
		all = append(all, c)
	}
	return all
}

// checkedCondition is a condition of a subscription, and what has yet to be checked.
type checkedCondition struct {
	Condition
	// changed is true if row, which is the current row, has not been checked; since is the first
	// revision that has not been checked.
	changed bool
	row     *Row
	since   int64
}

// update records the row at a revision.
func (c *checkedCondition) update(rev int64, row *Row) {
	if !c.changed {
		c.changed, c.since = true, rev
	}
	c.row = row
}

// takeChanged returns the conditions whose rows have changed, and marks them as checked. s.mu is held.
func (s *Subscription) takeChanged() []checkedCondition {
	var changed []checkedCondition
	for i := range s.conditions {
		if c := &s.conditions[i]; c.changed {
			changed = append(changed, *c)
			c.changed, c.row = false, nil
		}
	}
	return changed
}

// check checks conditions whose rows have changed. If some do not hold, the subscription ends after
// the last revision at which all held.
func (s *Subscription) check(changed []checkedCondition) {
	for _, c := range changed {
		if !c.IsMet(c.row) && (s.end == nil || c.since <= s.until) {
			s.end, s.until = c.End, c.since-1
		}
	}
}

// Ended returns the End of a condition that no longer holds, or nil. It is for readers that cannot
// process more steps at the moment; Poll still returns the steps before the end. Only the goroutine
// that polls may call it.
func (s *Subscription) Ended() error {
	if s.end == nil {
		s.mu.Lock()
		changed := s.takeChanged()
		s.mu.Unlock()
		s.check(changed)
	}
	return s.end
}
