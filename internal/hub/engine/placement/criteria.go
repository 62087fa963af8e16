package placement

// fieldInvalid is the field of a Finding for an entry that cannot be used.
const fieldInvalid = "invalid"

// criteria is one compiled entry of a list of tests. A subject matches the entry if it matches each
// of the given fields.
type criteria[S any] struct {
	given []criterion[S]
	known int
	// problem is the error in the entry, if any; then nothing matches it.
	problem string
}

// criterion is one field of an entry.
type criterion[S any] struct {
	field string
	// rank is the position of the field in the order of tests.
	rank int
	fits func(S) bool
	// why describes why a subject does not match.
	why func(S) string
}

// add adds a field if it is given. Fields are tested in the order of calls.
func (c *criteria[S]) add(field string, given bool, fits func(S) bool, why func(S) string) {
	if c.known++; given {
		c.given = append(c.given, criterion[S]{field, c.known, fits, why})
	}
}

func (c *criteria[S]) fit(s S) bool {
	if c.problem != "" {
		return false
	}
	for i := range c.given {
		if !c.given[i].fits(s) {
			return false
		}
	}
	return true
}

// find returns the first field that a subject does not match, and the rank of the field. If the
// subject matches, the Finding is empty.
func (c *criteria[S]) find(s S) (f Finding, rank int) {
	if c.problem != "" {
		return Finding{fieldInvalid, c.problem}, 0
	}
	for _, f := range c.given {
		if !f.fits(s) {
			return Finding{f.field, f.why(s)}, f.rank
		}
	}
	return Finding{}, 0
}
