package quota

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Limits refuses writes that would make a space larger than its Space object allows. It
// is asked at the last moment, when the bytes to be stored are known. It is safe for
// concurrent use.
type Limits struct {
	table *table.Table
	usage *Usage
	// logQuota returns how many bytes the log may have; 0 if that is not known.
	logQuota func() int64
}

// New makes Limits over a table. usage must observe the same table.
func New(t *table.Table, usage *Usage) *Limits {
	return &Limits{table: t, usage: usage, logQuota: func() int64 { return 0 }}
}

// A Space without a limit of bytes has default limits, in eighths of the log's quota. They go by the bytes of
// objects, not by what the log has free. So history does not count, and other spaces do not change what one
// space may hold. The rest of the quota is for spaces with limits, for reports and for history.
const (
	// defaultEighths is how much one such space may hold.
	defaultEighths = 2
	// createEighths is how much the objects of all spaces may take for such spaces to create objects,
	// growEighths for them to make objects larger. So spaces that create do not keep others from changing what
	// they have.
	createEighths, growEighths = 4, 5
	// smallEighths is how much more they may take for a space to create objects that holds less than one in
	// smallShare of an eighth. So large spaces do not keep others from creating what they need first.
	smallEighths, smallShare = 1, 8
	// createParts and growParts, of 32, are how much objects and reports may take together for such spaces to
	// create objects and to make objects larger; the latter also counts for small spaces that create. With an
	// eighth for history this is below the part of the quota at which the log refuses growth.
	createParts, growParts = 20, 21
)

// FollowQuota sets the function that returns how many bytes the log may have. It must be called before
// the Limits are used. Without it, spaces have only the limits of bytes that their Spaces set.
func (l *Limits) FollowQuota(bytes func() int64) { l.logQuota = bytes }

// ExceededError lists the limits of its space that a write would exceed.
type ExceededError struct {
	Space key.Space
	// Limits has their names. Text says by how much they are exceeded, in the words of
	// a ResourceQuota.
	Limits []string
	Text   string
}

// Error implements error.
func (e *ExceededError) Error() string {
	return fmt.Sprintf("exceeded limits of space %q: %s", e.Space, e.Text)
}

// Bound is which limits a write is bound by.
type Bound uint8

const (
	// Unbound: none.
	Unbound Bound = iota
	// BySpace: those that the Space sets.
	BySpace
	// ByDefaults: also the default of a Space that sets none.
	ByDefaults
)

// Reserve counts a write of value at an object's key, and refuses it with an
// ExceededError if it is bound by limits that it exceeds. What the hub itself writes,
// and the steps of a deletion, are counted and never refused: a full space can be
// emptied. In root only the tests of policies are limited. done must be called with the
// revision of the write, or 0 if nothing was written.
func (l *Limits) Reserve(k string, value []byte, bound Bound) (done func(rev int64), err error) {
	s, r, _, ok := key.Split(k)
	if !ok || s == key.Root && amountSized(r, 0).Policies == 0 {
		return func(int64) {}, nil
	}
	w := l.usage.begin(s, k)
	before, _ := l.table.Get(k)
	refuses := func(Amount, Amount, Stored) *ExceededError { return nil }
	if bound != Unbound && !ends(before, value, l.usage.slack(k)) {
		set, err := l.limitsOf(s)
		if err != nil {
			l.usage.cancel(w)
			return nil, err
		}
		check := limits{space: s, set: set, size: int64(len(value)), creates: before == nil}
		if bound == ByDefaults && s != key.Root {
			check.eighth = l.logQuota() / 8
		}
		refuses = check.exceeded
	}
	return l.usage.reserve(w, l.usage.amountIn(r, value), l.usage.amountOf(r, before), func(used, more Amount, all Stored) error {
		if e := refuses(used, more, all); e != nil {
			return e
		}
		return nil
	})
}

// Exceeds returns which limits that its Space sets a value of size bytes at an object's key would
// exceed; nil if none. It is cheap, and reserves nothing. The object is no policy, or its tests stay.
func (l *Limits) Exceeds(k string, size int) (*ExceededError, error) {
	s, r, _, ok := key.Split(k)
	if !ok || s == key.Root {
		return nil, nil
	}
	set, err := l.limitsOf(s)
	if err != nil {
		return nil, err
	}
	more := amountSized(r, size)
	if before, _ := l.table.Get(k); before != nil {
		more = more.minus(amountSized(r, len(before.Value)))
	}
	return limits{space: s, set: set, size: int64(size)}.exceeded(l.usage.InSpace(s), more, Stored{}), nil
}

// Effect reports whether a write makes an object larger, and whether it is a step of the
// object's deletion, which may do so a little because it makes room in the end.
func (l *Limits) Effect(k string, value []byte) (growing, ending bool) {
	before, _ := l.table.Get(k)
	slack := l.usage.slack(k)
	return grows(before, value, slack), ends(before, value, slack)
}

// limitsOf returns the limits of a space; the zero value has none.
func (l *Limits) limitsOf(s key.Space) (v1alpha1.SpaceLimits, error) {
	var found v1alpha1.SpaceLimits
	row, _ := l.table.Get(s.Key())
	if row == nil {
		return found, nil // other checks refuse a space that does not exist
	}
	set := gjson.GetBytes(row.Value, "spec.limits")
	if !set.Exists() {
		return found, nil
	}
	if err := json.Unmarshal([]byte(set.Raw), &found); err != nil {
		return found, fmt.Errorf("decode the limits of space %q: %w", s, err)
	}
	return found, nil
}

// limits are those of one write.
type limits struct {
	space key.Space
	set   v1alpha1.SpaceLimits
	// size is that of the value.
	size int64
	// eighth is an eighth of the log's quota; 0: no default limit of bytes applies.
	eighth int64
	// creates reports whether there is no object yet.
	creates bool
}

// exceeded returns the limits that a write would exceed; nil if none. A write that makes
// nothing larger exceeds nothing. used is what the space holds, all what the whole log does.
func (l limits) exceeded(used, more Amount, all Stored) *ExceededError {
	var names, texts []string
	exceed := func(name, text string) { names, texts = append(names, name), append(texts, text) }
	check := func(name string, more, used int64, limit *int64, next string) {
		if limit != nil && more > 0 && used+more > *limit {
			exceed(name, fmt.Sprintf("requested: %s=%d, used: %s=%d, limited: %s=%d%s", name, more, name, used, name, *limit, next))
		}
	}
	check("objects", more.Objects, used.Objects, l.set.Objects, "")
	check("crds", more.CRDs, used.CRDs, l.set.CRDs, "")
	check("policies", more.Policies, used.Policies, l.set.Policies, "")
	check("policyTests", more.PolicyTests, used.PolicyTests, cmp.Or(l.set.PolicyTests, new(int64(selectors.MaxSpaceTests))),
		" for the entries and the requirements of label selectors of all Placements, Customizers and KindRules: use fewer, or names instead of selectors, or have an operator set spec.limits.policyTests")
	check("summaries", more.Summaries, used.Summaries, l.set.Summaries, "")
	if l.set.Bytes != nil {
		check("bytes", more.Bytes, used.Bytes, new(l.set.Bytes.Value()), "")
	} else if l.eighth > 0 {
		const next = ": delete objects, or have an operator set spec.limits.bytes"
		check("bytes", more.Bytes, used.Bytes, new(defaultEighths*l.eighth), ", a quarter of the log's quota, since the Space sets no limit"+next)
		eighths, together32 := int64(growEighths), int64(growParts)
		switch isSmall := used.Bytes+more.Bytes <= l.eighth/smallShare; {
		case l.creates && isSmall:
			eighths = createEighths + smallEighths
		case l.creates:
			eighths, together32 = createEighths, createParts
		}
		together := func(used, limit int64, holders string) {
			if len(names) == 0 && more.Bytes > 0 && used+more.Bytes > limit {
				exceed("bytes", fmt.Sprintf("requested: bytes=%d, used: bytes=%d by %s, limited: bytes=%d, a part of the log's quota, since the Space sets no limit%s", more.Bytes, used, holders, limit, next))
			}
		}
		together(all.Objects, eighths*l.eighth, "the objects of all spaces")
		together(all.Objects+all.Others, together32*l.eighth/4, "the objects and reports of all spaces")
	}
	if l.set.ObjectBytes != nil && more.Bytes > 0 && l.size > l.set.ObjectBytes.Value() {
		exceed("objectBytes", fmt.Sprintf("requested: objectBytes=%d, limited: objectBytes=%d", l.size, l.set.ObjectBytes.Value()))
	}
	if len(texts) == 0 {
		return nil
	}
	return &ExceededError{Space: l.space, Limits: names, Text: strings.Join(texts, "; ")}
}

// ends reports whether a write is a step of an object's deletion: it marks the object,
// or takes a finalizer away. It may make the object a little larger all the same.
func ends(before *table.Row, value []byte, slack int) bool {
	if before == nil || len(value) > len(before.Value)+slack || !gjson.GetBytes(value, "metadata.deletionTimestamp").Exists() {
		return false
	}
	const finalizers = "metadata.finalizers.#"
	return !before.Meta.Deleting || gjson.GetBytes(value, finalizers).Int() < gjson.GetBytes(before.Value, finalizers).Int()
}

// grows reports whether a write makes an object larger. One that is being deleted may grow
// a little: it needs other updates before it can go, for instance of its status.
func grows(before *table.Row, value []byte, slack int) bool {
	switch {
	case before == nil:
		return true
	case before.Meta.Deleting:
		return len(value) > len(before.Value)+slack
	}
	return len(value) > len(before.Value)
}
