package placement

// fieldInvalid stands for the failing field of an entry that can't be used.
const fieldInvalid = "invalid"

// criteria are one compiled entry of a list of tests for things of a type: something
// fits the entry if it fits each of the fields that are given.
type criteria[S any] struct {
	given []criterion[S]
	known int
	// problem is why the entry can't be used; nothing fits it then.
	problem string
}

// criterion is one field of an entry.
type criterion[S any] struct {
	field string
	// rank is larger the later the field is tested.
	rank int
	fits func(S) bool
	// why says why something does not fit.
	why func(S) string
}

// add adds a field, in the order in which they are tested, if it is given.
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

// find is the first finding about something that does not fit, and the rank of its
// field; the field is empty if it fits.
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
