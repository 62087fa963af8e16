package fields

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/internal/lib/fieldset"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/rulepath"
)

// Reasons for which a value can't be released.
var (
	// errWhole is also returned, before the target is asked, if no managed fields show whether fields inside the
	// value have other owners.
	errWhole  = errors.New("the location treats a field that contains it as one value")
	errMember = errors.New("it is in a list whose elements are identified by their whole value")
	errListed = errors.New("it identifies an element of a list")
	errTwice  = errors.New("more than one element of a list may contain it")
	// errUnowned is returned if no managed fields contain an element of a list. The element may exist
	// nevertheless.
	errUnowned = errors.New("it is in an element of a list that no field manager owns")
)

// Asker requests facts of an object from the target that its managed fields do not have.
type Asker interface {
	// Whole returns the metadata that the object would have after an apply of the whole object.
	Whole(ctx context.Context) (*ownership.Meta, error)
	// Object returns the whole object at the target.
	Object(ctx context.Context) (map[string]any, error)
}

// answers holds the answers of the target about an object; nil: no request was made.
type answers struct {
	// whole is the set of fields that an apply of the whole object would own. object is the object at the
	// target.
	whole  *fieldpath.Set
	object map[string]any
}

// Lease computes which values of one object are released, from the object in its space and the object at the
// target.
type Lease struct {
	manager string
	// mine are the fields of the location's manager, lent those of ownership.ReleasedManager, live those of any
	// manager. known is live, with the answers of the target.
	mine, lent, live, known *fieldpath.Set
	answers
	// released are the fields, of mine and lent, that ownership.ReleasedManager must own. out are the values
	// that an apply leaves out.
	released *fieldpath.Set
	out      []rulepath.Location
	// written is the object in its space.
	written map[string]any
	// Fresh is true if a released value is in an element that the target does not have yet, so that the apply
	// contains it.
	Fresh bool
}

// NewLease finds the released values of an object. release is the policy's paths, object the object in its
// space, m the metadata at the target. In most cases it makes no request.
func NewLease(ctx context.Context, release string, object []byte, m *ownership.Meta, l ownership.Owner, asker Asker) (*Lease, error) {
	var answered answers
	for {
		x, err := leaseWith(release, object, m, l, answered)
		switch {
		case errors.Is(err, errWhole) && answered.whole == nil:
			var would *ownership.Meta
			if would, err = asker.Whole(ctx); err == nil {
				answered.whole, err = owned(would, l)
			}
		case errors.Is(err, errUnowned) && answered.object == nil:
			answered.object, err = asker.Object(ctx)
		default:
			return x, err
		}
		if err != nil {
			return nil, err
		}
	}
}

// leaseWith is NewLease with the answers that the target has given so far.
func leaseWith(release string, object []byte, m *ownership.Meta, l ownership.Owner, answered answers) (*Lease, error) {
	x := &Lease{
		manager: l.Manager(), mine: fieldpath.NewSet(), lent: fieldpath.NewSet(), live: fieldpath.NewSet(), released: fieldpath.NewSet(),
		answers: answered,
	}
	if err := x.read(m.ManagedFields); err != nil {
		return nil, err
	}
	if x.known = x.live; answered.whole != nil {
		x.known = x.live.Union(answered.whole)
	}
	if err := utiljson.Unmarshal(object, &x.written); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if release == "" {
		return x, nil
	}
	paths, err := rulepath.ParsePaths(release)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannotRelease, err)
	}
	var whole map[string]any
	if err := utiljson.Unmarshal(object, &whole); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	// The agent does not change released values that are not written any more.
	grow(whole, x.mine.Union(x.lent))
	inWritten, err := paths.Locate(x.written)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannotRelease, err)
	}
	inWhole, err := paths.Locate(whole)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannotRelease, err)
	}
	for _, location := range slices.Concat(inWritten, inWhole) {
		p, there, err := x.place(whole, location)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w %s: %w", ErrCannotRelease, pathText(location), err)
		case !there:
			x.Fresh = true
			continue
		}
		x.released.Insert(p)
		x.out = append(x.out, location)
	}
	return x, nil
}

func pathText(l rulepath.Location) string {
	p, err := fieldpath.MakePath(l...)
	if err != nil { // locations consist of names and indexes
		panic(err)
	}
	return "$" + p.String()
}

func (x *Lease) read(all []ownership.ManagedFields) error {
	for i := range all {
		f, set := &all[i], fieldpath.NewSet()
		if len(f.FieldsV1) == 0 {
			continue
		}
		if err := set.FromJSON(bytes.NewReader(f.FieldsV1)); err != nil {
			return fmt.Errorf("decode managed fields: %w", err)
		}
		x.live = x.live.Union(set)
		switch {
		case f.AppliedBy(x.manager):
			x.mine = x.mine.Union(set)
		case f.AppliedBy(ownership.ReleasedManager):
			x.lent = x.lent.Union(set)
		}
	}
	return nil
}

// Entries returns the managed fields, in which each field belongs to the manager that must own it. It also
// reports whether that is a change.
func (x *Lease) Entries(all []ownership.ManagedFields) ([]ownership.ManagedFields, bool, error) {
	both := x.mine.Union(x.lent)
	mine := both.RecursiveDifference(x.released)
	lent := both.Difference(mine)
	mine = mine.Difference(x.abandoned(mine))
	if mine.Equals(x.mine) && lent.Equals(x.lent) {
		return all, false, nil
	}
	var entries []ownership.ManagedFields
	var like *ownership.ManagedFields // the location's entry, or else the released manager's
	for i := range all {
		switch f := &all[i]; {
		case f.AppliedBy(x.manager), f.AppliedBy(ownership.ReleasedManager) && like == nil:
			like = f
		case !f.AppliedBy(ownership.ReleasedManager):
			entries = append(entries, *f)
		}
	}
	for manager, set := range map[string]*fieldpath.Set{x.manager: mine, ownership.ReleasedManager: lent} {
		if set.Empty() {
			continue
		}
		b, err := set.ToJSON()
		if err != nil {
			return nil, false, fmt.Errorf("encode managed fields: %w", err)
		}
		f := *like
		f.Manager, f.FieldsV1 = manager, b
		entries = append(entries, f)
	}
	return entries, true, nil
}

// abandoned returns the fields that are neither released nor written any more: those of mine that only the
// manager of released values owns. No manager owns them after that, so they keep their value. Otherwise the next
// apply would remove a value that another writer may have set since.
func (x *Lease) abandoned(mine *fieldpath.Set) *fieldpath.Set {
	left := fieldpath.NewSet()
	x.lent.Intersection(mine).Difference(x.mine).Iterate(func(p fieldpath.Path) {
		if isLeft(x.written, p) {
			left.Insert(p.Copy())
		}
	})
	return left
}

// isLeft reports whether an object has the parent of a field but not the field. A field in an element of a list
// that is deleted is not left: it is deleted with the element.
func isLeft(v any, p fieldpath.Path) bool {
	for _, step := range p {
		switch {
		case step.FieldName != nil:
			in, ok := v.(map[string]any)
			if !ok {
				return false
			}
			if v, ok = in[*step.FieldName]; !ok {
				return true
			}
		case step.Key != nil:
			list, _ := v.([]any)
			i := slices.IndexFunc(list, func(element any) bool { is, _ := fieldset.Matches(element, step); return is })
			if i < 0 {
				return false
			}
			v = list[i]
		default:
			return false
		}
	}
	return false
}

// Rest returns the object without its released values, except those in new elements.
func (x *Lease) Rest(object []byte) ([]byte, error) {
	if len(x.out) == 0 {
		return object, nil
	}
	dec := json.NewDecoder(bytes.NewReader(object))
	dec.UseNumber() // numbers stay as they were written
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for _, location := range x.out {
		leaveOut(v, location)
	}
	b, err := json.Marshal(without(v))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return b, nil
}

// omission replaces a value to leave out until all such values are found, so that later elements of a list keep
// their index.
type omission struct{}

func leaveOut(v any, l rulepath.Location) {
	for i, step := range l {
		last := i == len(l)-1
		switch step := step.(type) {
		case string:
			fields, _ := v.(map[string]any)
			next, ok := fields[step]
			if last && ok {
				fields[step] = omission{}
			}
			v = next
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return
			}
			if v = list[step]; last {
				list[step] = omission{}
			}
		}
	}
}

func without(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, in := range v {
			if in == (omission{}) {
				delete(v, name)
			} else {
				v[name] = without(in)
			}
		}
	case []any:
		v = slices.DeleteFunc(v, func(in any) bool { return in == (omission{}) })
		for i := range v {
			v[i] = without(v[i])
		}
		return v
	}
	return v
}

// ErrMalformed is returned for an object that can't be applied at any target.
var ErrMalformed = errors.New("malformed object")

// ErrCannotRelease is returned for an object that can't be applied without a change of a released value.
var ErrCannotRelease = errors.New("cannot release")
