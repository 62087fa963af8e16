package placement

// fieldInvalid stands for the failing field of an entry that can't be used.
const fieldInvalid = "invalid"

// criteria are one compiled entry of a list of tests: a thing fits the entry if it fits
// each of the given fields.
type criteria[S any] struct {
	given []criterion[S]
	known int
	// problem says why the entry can't be used; then nothing fits it.
	problem string
}

// criterion is one field of an entry.
type criterion[S any] struct {
	field string
	// rank is the position of the field in the order of tests.
	rank int
	fits func(S) bool
	// why says why a thing does not fit.
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

// find is the first field that a thing does not fit, why, and the field's rank. If the
// thing fits, the Finding is empty.
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
