package table

// Premise is what a subscription rests on: what has to hold of the row of one key for
// as long as it goes on.
type Premise struct {
	// Key is the row's.
	Key string
	// Holds looks at the row, or at nil if there is none: when the subscription starts,
	// and whenever the row was changed. It is called by who subscribes or polls, without
	// locks, and may read the table.
	Holds func(*Row) bool
	// End is what the subscription ends with.
	End error
}

// Stands is the premise that an object is there and not being deleted, and that it is
// the one that was there at a revision: not another of the same name.
func Stands(k string, at int64, end error) Premise {
	return Premise{Key: k, End: end, Holds: func(row *Row) bool {
		return row != nil && !row.Meta.Deleting && row.CreateRev <= at
	}}
}

// Ending are premises with another end.
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
	// changed says that nobody has looked at the row as it is now, which is row; since is
	// the first revision that nobody has looked at.
	changed bool
	row     *Row
	since   int64
}

// note takes the row as a revision has it.
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

// judge looks at premises whose rows have changed. If some do not hold, the
// subscription ends behind the last revision at which all did.
func (s *Subscription) judge(changed []rested) {
	for _, p := range changed {
		if !p.Holds(p.row) && (s.end == nil || p.since <= s.until) {
			s.end, s.until = p.End, p.since-1
		}
	}
}

// Ended is the end of a premise that does not hold any more, or nil. It is for those who
// can't take more steps at the moment; Poll still gives what was before. It belongs to
// the goroutine that polls.
func (s *Subscription) Ended() error {
	if s.end == nil {
		s.mu.Lock()
		changed := s.takeChanged()
		s.mu.Unlock()
		s.judge(changed)
	}
	return s.end
}
