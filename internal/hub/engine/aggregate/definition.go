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
	// Uses are the variables in the expressions.
	Uses Uses
	// forEach returns the elements of an object; nil if the object itself is the only one.
	forEach  *program
	filter   *program
	keys     []column
	combined []column
	// selects reports whether each object at each location, or each of its elements, is a row.
	selects bool
	limit   int
}

// column is one column of a row.
type column struct {
	name string
	// program computes the values; nil to count all.
	program *program
	// as is the combination of values; empty for keys.
	as v1alpha1.SummaryCombineType
}

// defaultLimit is the limit if the spec has none.
const defaultLimit = 100

// Compile compiles a spec. It returns an error for each invalid expression.
func (l *Language) Compile(spec *v1alpha1.SummarySpec, path *field.Path) (*Definition, field.ErrorList) {
	d, _, errs := l.compileParts(spec, path)
	if len(errs) > 0 {
		return nil, errs
	}
	return d, nil
}

// compileParts also returns the valid expressions.
func (l *Language) compileParts(spec *v1alpha1.SummarySpec, path *field.Path) (d *Definition, expressions []Expression, errs field.ErrorList) {
	d = &Definition{selects: len(spec.Select) > 0, limit: int(spec.Limit)}
	if d.limit == 0 {
		d.limit = defaultLimit
	}
	scope := ofObject
	compile := func(source string, path *field.Path, fits func(family) error) *program {
		p, err := l.compile(source, scope)
		if err == nil {
			err = fits(p.family())
		}
		if err != nil {
			errs = append(errs, field.Invalid(path, source, err.Error()))
			return nil
		}
		d.Uses = d.Uses.with(p.uses)
		expressions = append(expressions, Expression{Source: source, path: path, uses: p.uses, fits: fits, scope: scope})
		return p
	}
	if spec.ForEach != "" {
		d.forEach = compile(spec.ForEach, path.Child("forEach"), lists)
		scope = ofElement
	}
	if spec.Filter != "" {
		d.filter = compile(spec.Filter, path.Child("filter"), filters)
	}
	keys, under := spec.GroupBy, path.Child("groupBy")
	if d.selects {
		keys, under = spec.Select, path.Child("select")
	}
	for i, k := range keys {
		p := compile(k.Expression, under.Index(i).Child("expression"), func(family) error { return nil })
		d.keys = append(d.keys, column{name: k.Name, program: p})
	}
	for i, c := range spec.Combine {
		made := column{name: c.Name, as: c.Type}
		if c.Expression != "" {
			made.program = compile(c.Expression, path.Child("combine").Index(i).Child("expression"), func(f family) error { return combines(c.Type, f) })
		} else if c.Type != v1alpha1.SummaryCount {
			errs = append(errs, field.Required(path.Child("combine").Index(i).Child("expression"), "only COUNT needs none"))
		}
		d.combined = append(d.combined, made)
	}
	return d, expressions, errs
}

func lists(f family) error {
	if f != null && f != other {
		return fmt.Errorf("gives %s, where a list belongs", nameOf(f))
	}
	return nil
}

func filters(f family) error {
	if f != null && f != boolean {
		return fmt.Errorf("gives %s, where a boolean belongs", nameOf(f))
	}
	return nil
}

// combines returns an error if values of a family cannot be combined.
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

// Contribution is the contribution of one object at one location to a Summary. The zero
// Contribution is empty: the filter excludes the object.
type Contribution struct {
	// Failure is the error that excludes it from the rows; empty if there is none.
	Failure string
	// Cost is the cost of the expressions that were not cached, in CEL's units.
	Cost uint64
	// elements are those that the filter admits, in order. Without forEach there is at most one.
	elements []element
}

// element is the contribution of one element of an object at a location.
type element struct {
	// index is that in the list of forEach.
	index int
	keys  []Value
	// values are the values for combination.
	values []Value
}

// Contribute evaluates the expressions for one object at one location.
func (d *Definition) Contribute(input Input) (c Contribution) {
	e := evaluation{input: input}
	var err error
	if d.forEach == nil {
		c.elements, err = d.admit(&e, nil, 0)
	} else {
		c.elements, err = d.contributeEach(&e)
	}
	if err != nil {
		c = Contribution{Failure: wire.Brief(err.Error())}
	}
	c.Cost = e.spent
	return c
}

// contributeEach evaluates the expressions for each element of an object. It fails as a whole if they fail
// for one element.
func (d *Definition) contributeEach(e *evaluation) (all []element, err error) {
	list, err := e.list(d.forEach)
	if err != nil {
		return nil, fmt.Errorf("forEach: %w", err)
	}
	for i, item := range list {
		if err := e.next(item); err != nil {
			return nil, err
		}
		if all, err = d.admit(e, all, i); err != nil {
			return nil, fmt.Errorf("element %d of forEach: %w", i, err)
		}
	}
	return all, nil
}

// admit appends the element with an index to all if the filter admits it.
func (d *Definition) admit(e *evaluation, all []element, index int) ([]element, error) {
	if d.filter != nil {
		v, err := e.eval(d.filter)
		switch {
		case err != nil:
			return nil, fmt.Errorf("filter: %w", err)
		case v.family == null: // an absent optional value
			return all, nil
		case v.family != boolean:
			return nil, errors.New("filter: gives " + nameOf(v.family) + ", where a boolean belongs")
		case v.amount.small == 0:
			return all, nil
		}
	}
	one := element{index: index}
	for _, k := range d.keys {
		v, err := e.eval(k.program)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		one.keys = append(one.keys, v)
	}
	for _, k := range d.combined {
		v := count(1)
		if k.program != nil {
			var err error
			if v, err = e.eval(k.program); err == nil {
				err = combines(k.as, v.family)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k.name, err)
			}
			if k.as == v1alpha1.SummaryCount && v.family != null {
				v = count(1)
			}
		}
		one.values = append(one.values, v)
	}
	return append(all, one), nil
}

// size returns the approximate size in bytes.
func (c *Contribution) size() (n int) {
	const itself, each = 80, 80
	n = itself + len(c.Failure)
	for _, one := range c.elements {
		n += each
		for _, v := range slices.Concat(one.keys, one.values) {
			n += v.size()
		}
	}
	return n
}
