package table

// Premise is a condition on the row of one key that must hold for as long as a
// subscription goes on.
type Premise struct {
	// Key is the key of the row.
	Key string
	// Holds gets the row, or nil if there is none: when the subscription starts, and
	// whenever the row has changed. It is called by the goroutine that subscribes or polls,
	// without locks, and may read the table.
	Holds func(*Row) bool
	// End is what the subscription ends with.
	End error
}

// Stands is the premise that an object exists, is not being deleted, and is the one that
// existed at a revision: not a later one of the same name.
func Stands(k string, at int64, end error) Premise {
	return Premise{Key: k, End: end, Holds: func(row *Row) bool {
		return row != nil && !row.Meta.Deleting && row.CreateRev <= at
	}}
}

// Ending returns premises with End set to end.
func Ending(premises []Premise, end error) []Premise {
	var all []Premise
	for _, p := range premises {
		p.End = end
		all = append(all, p)
	}
	return all
}

// rested is a premise of a subscription.
type rested struct {
	Premise
	// changed says that the current row, which is row, has not been judged; since is the
	// first revision that has not been.
	changed bool
	row     *Row
	since   int64
}

// note notes the row at a revision.
func (p *rested) note(rev int64, row *Row) {
	if !p.changed {
		p.changed, p.since = true, rev
	}
	p.row = row
}

// takeChanged are the premises whose rows have changed; s.mu is held.
func (s *Subscription) takeChanged() []rested {
	var changed []rested
	for i := range s.premises {
		if p := &s.premises[i]; p.changed {
			changed = append(changed, *p)
			p.changed, p.row = false, nil
		}
	}
	return changed
}

// judge checks premises whose rows have changed. If some do not hold, the subscription
// ends after the last revision at which all did.
func (s *Subscription) judge(changed []rested) {
	for _, p := range changed {
		if !p.Holds(p.row) && (s.end == nil || p.since <= s.until) {
			s.end, s.until = p.End, p.since-1
		}
	}
}

// Ended is the End of a premise that no longer holds, or nil. It is for readers that can't
// take more steps at the moment; Poll still returns the steps before it. Only the
// goroutine that polls may call it.
func (s *Subscription) Ended() error {
	if s.end == nil {
		s.mu.Lock()
		changed := s.takeChanged()
		s.mu.Unlock()
		s.judge(changed)
	}
	return s.end
}
