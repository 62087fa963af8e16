package aggregate

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Definition is a compiled spec of a Summary. It is immutable.
type Definition struct {
	// Uses are the variables that it uses.
	Uses     Uses
	filter   *program
	keys     []column
	combined []column
	// selects says that each object at each location is a row.
	selects bool
	limit   int
}

// column is one of a row.
type column struct {
	name string
	// program gives its values; nil for those that count all.
	program *program
	// as says how values are combined; empty if they are not.
	as v1alpha1.SummaryCombineType
}

// defaultLimit is the limit of a spec that gives none.
const defaultLimit = 100

// Compile compiles a spec. Errors say which of its expressions can't be used, at a path.
func (l *Language) Compile(spec *v1alpha1.SummarySpec, at *field.Path) (*Definition, field.ErrorList) {
	d, _, errs := l.compileParts(spec, at)
	if len(errs) > 0 {
		return nil, errs
	}
	return d, nil
}

// compileParts also returns the expressions that can be used.
func (l *Language) compileParts(spec *v1alpha1.SummarySpec, at *field.Path) (d *Definition, parts []Part, errs field.ErrorList) {
	d = &Definition{selects: len(spec.Select) > 0, limit: int(spec.Limit)}
	if d.limit == 0 {
		d.limit = defaultLimit
	}
	compile := func(source string, at *field.Path, fits func(family) error) *program {
		p, err := l.compile(source)
		if err == nil {
			err = fits(p.family())
		}
		if err != nil {
			errs = append(errs, field.Invalid(at, source, err.Error()))
			return nil
		}
		d.Uses = d.Uses.with(p.uses)
		parts = append(parts, Part{Source: source, at: at, uses: p.uses, fits: fits})
		return p
	}
	if spec.Filter != "" {
		d.filter = compile(spec.Filter, at.Child("filter"), filters)
	}
	keys, under := spec.GroupBy, at.Child("groupBy")
	if d.selects {
		keys, under = spec.Select, at.Child("select")
	}
	for i, k := range keys {
		p := compile(k.Expression, under.Index(i).Child("expression"), func(family) error { return nil })
		d.keys = append(d.keys, column{name: k.Name, program: p})
	}
	for i, c := range spec.Combine {
		made := column{name: c.Name, as: c.Type}
		if c.Expression != "" {
			made.program = compile(c.Expression, at.Child("combine").Index(i).Child("expression"), func(f family) error { return combines(c.Type, f) })
		} else if c.Type != v1alpha1.SummaryCount {
			errs = append(errs, field.Required(at.Child("combine").Index(i).Child("expression"), "only COUNT needs none"))
		}
		d.combined = append(d.combined, made)
	}
	return d, parts, errs
}

func filters(f family) error {
	if f != null && f != boolean {
		return fmt.Errorf("gives %s, where a boolean belongs", nameOf(f))
	}
	return nil
}

// combines fails if values of a family can't be combined.
func combines(as v1alpha1.SummaryCombineType, f family) error {
	switch {
	case f == null, as == v1alpha1.SummaryCount:
		return nil
	case as == v1alpha1.SummaryMin || as == v1alpha1.SummaryMax:
		if !f.ordered() {
			return fmt.Errorf("gives %s; %s is of numbers, quantities, durations, times or texts", nameOf(f), as)
		}
	case f == text:
		return fmt.Errorf("gives a text; %s is of numbers, quantities or durations: quantity() and duration() make one of a text", as)
	case !f.adds():
		return fmt.Errorf("gives %s; %s is of numbers, quantities or durations", nameOf(f), as)
	}
	return nil
}

func nameOf(f family) string {
	return [families]string{"null", "a boolean", "a number", "a quantity", "a duration", "a time", "a text", "a list or an object"}[f]
}

// Contribution is what one object at one location gives to a Summary. The zero Contribution
// is nothing: the filter leaves it out.
type Contribution struct {
	// Failure is why nothing of it is in the rows; empty if it did not fail.
	Failure string
	// Cost is what it has cost, in CEL's units, to evaluate what was not known.
	Cost uint64
	in   bool
	keys []Value
	// values are those that are combined.
	values []Value
}

// Contribute evaluates the expressions for one object at one location.
func (d *Definition) Contribute(of Input) Contribution {
	e := evaluation{of: of}
	c, err := d.contribute(&e)
	if err != nil {
		c = Contribution{Failure: wire.Brief(err.Error())}
	}
	c.Cost = e.spent
	return c
}

func (d *Definition) contribute(e *evaluation) (c Contribution, err error) {
	if d.filter != nil {
		v, err := e.eval(d.filter)
		switch {
		case err != nil:
			return c, fmt.Errorf("filter: %w", err)
		case v.family == null: // of an optional value that is not there
			return c, nil
		case v.family != boolean:
			return c, errors.New("filter: gives " + nameOf(v.family) + ", where a boolean belongs")
		case v.of.small == 0:
			return c, nil
		}
	}
	c.in = true
	for _, k := range d.keys {
		v, err := e.eval(k.program)
		if err != nil {
			return c, fmt.Errorf("%s: %w", k.name, err)
		}
		c.keys = append(c.keys, v)
	}
	for _, k := range d.combined {
		v := count(1)
		if k.program != nil {
			if v, err = e.eval(k.program); err == nil {
				err = combines(k.as, v.family)
			}
			if err != nil {
				return c, fmt.Errorf("%s: %w", k.name, err)
			}
			if k.as == v1alpha1.SummaryCount && v.family != null {
				v = count(1)
			}
		}
		c.values = append(c.values, v)
	}
	return c, nil
}

// size is about how many bytes a contribution takes.
func (c *Contribution) size() (n int) {
	const itself = 160
	n = itself + len(c.Failure)
	for _, v := range slices.Concat(c.keys, c.values) {
		n += v.size()
	}
	return n
}
