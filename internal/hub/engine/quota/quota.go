package quota

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Limits refuses writes that would make a space larger than its Space object allows. It
// is asked at the last moment, when the bytes to be stored are known. It is safe for
// concurrent use.
type Limits struct {
	table *table.Table
	usage *Usage
	// free is how many bytes the log has free.
	free func() int64
}

// New makes Limits over a table. usage must observe the same table.
func New(t *table.Table, usage *Usage) *Limits {
	return &Limits{table: t, usage: usage, free: func() int64 { return 0 }}
}

// defaultShare is how many times as many bytes as the log has free a space may hold whose Space has no
// limit of bytes: one such space gets three quarters of the log, and any number of them leave room for
// others.
const defaultShare = 3

// Follow sets the function that returns how many bytes the log has free. It must be called before
// the Limits are used. Without it, and while the log has nothing free, spaces have only the limits that
// their Spaces set.
func (l *Limits) Follow(free func() int64) { l.free = free }

// ExceededError says which limits of its space a write would exceed.
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
// emptied. done must be called with the revision of the write, or 0 if nothing was
// written.
func (l *Limits) Reserve(k string, value []byte, bound Bound) (done func(rev int64), err error) {
	s, r, _, ok := key.Split(k)
	if !ok || s == key.Root {
		return func(int64) {}, nil
	}
	w := l.usage.begin(s, k)
	before, _ := l.table.Get(k)
	var of v1alpha1.SpaceLimits
	var free int64
	if bound != Unbound && !ends(before, value, l.usage.slack(k)) {
		if of, err = l.of(s); err != nil {
			l.usage.cancel(w)
			return nil, err
		}
		if bound == ByDefaults {
			free = l.free()
		}
	}
	return l.usage.reserve(w, amount(r, len(value)), amountOf(r, before), func(used, more Amount) error {
		if e := exceeds(s, of, free, used, more, int64(len(value))); e != nil {
			return e
		}
		return nil
	})
}

// Exceeds returns which limits that its Space sets a value of size bytes at an object's key would
// exceed; nil if none. It is cheap, and reserves nothing.
func (l *Limits) Exceeds(k string, size int) (*ExceededError, error) {
	s, r, _, ok := key.Split(k)
	if !ok || s == key.Root {
		return nil, nil
	}
	of, err := l.of(s)
	if err != nil {
		return nil, err
	}
	before, _ := l.table.Get(k)
	return exceeds(s, of, 0, l.usage.Of(s), amount(r, size).minus(amountOf(r, before)), int64(size)), nil
}

// Effect says whether a write makes an object larger, and whether it is a step of the
// object's deletion, which may do so a little because it makes room in the end.
func (l *Limits) Effect(k string, value []byte) (growing, ending bool) {
	before, _ := l.table.Get(k)
	slack := l.usage.slack(k)
	return grows(before, value, slack), ends(before, value, slack)
}

// of returns the limits of a space; the zero value has none.
func (l *Limits) of(s key.Space) (v1alpha1.SpaceLimits, error) {
	var of v1alpha1.SpaceLimits
	row, _ := l.table.Get(s.Key())
	if row == nil {
		return of, nil // that the space is gone is found by others
	}
	set := gjson.GetBytes(row.Value, "spec.limits")
	if !set.Exists() {
		return of, nil
	}
	if err := json.Unmarshal([]byte(set.Raw), &of); err != nil {
		return of, fmt.Errorf("decode the limits of space %q: %w", s, err)
	}
	return of, nil
}

// exceeds returns the limits that a write would exceed; nil if none. A write that makes
// nothing larger exceeds nothing. free is how many bytes the log has free; 0: no default limit applies.
func exceeds(s key.Space, of v1alpha1.SpaceLimits, free int64, used, more Amount, size int64) *ExceededError {
	var names, all []string
	check := func(name string, more, used int64, limit *int64) {
		if limit != nil && more > 0 && used+more > *limit {
			names = append(names, name)
			all = append(all, fmt.Sprintf("requested: %s=%d, used: %s=%d, limited: %s=%d", name, more, name, used, name, *limit))
		}
	}
	check("objects", more.Objects, used.Objects, of.Objects)
	check("crds", more.CRDs, used.CRDs, of.CRDs)
	check("policies", more.Policies, used.Policies, of.Policies)
	check("summaries", more.Summaries, used.Summaries, of.Summaries)
	if of.Bytes != nil {
		limit := of.Bytes.Value()
		check("bytes", more.Bytes, used.Bytes, &limit)
	} else if more.Bytes > 0 && more.Bytes <= free && used.Bytes+more.Bytes > defaultShare*free { // a log without room refuses the write itself
		names = append(names, "bytes")
		all = append(all, fmt.Sprintf("requested: bytes=%d, used: bytes=%d, limited: bytes=%d, %d times what the log has free, since the Space sets no limit: delete objects, or have an operator set spec.limits.bytes",
			more.Bytes, used.Bytes, defaultShare*free, defaultShare))
	}
	if of.ObjectBytes != nil && more.Bytes > 0 && size > of.ObjectBytes.Value() {
		names = append(names, "objectBytes")
		all = append(all, fmt.Sprintf("requested: objectBytes=%d, limited: objectBytes=%d", size, of.ObjectBytes.Value()))
	}
	if len(all) == 0 {
		return nil
	}
	return &ExceededError{Space: s, Limits: names, Text: strings.Join(all, "; ")}
}

// ends says whether a write is a step of an object's deletion: it marks the object,
// or takes a finalizer away. It may make the object a little larger all the same.
func ends(before *table.Row, value []byte, slack int) bool {
	if before == nil || len(value) > len(before.Value)+slack || !gjson.GetBytes(value, "metadata.deletionTimestamp").Exists() {
		return false
	}
	const finalizers = "metadata.finalizers.#"
	return !before.Meta.Deleting || gjson.GetBytes(value, finalizers).Int() < gjson.GetBytes(before.Value, finalizers).Int()
}

// grows says whether a write makes an object larger. One that is being deleted may grow
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
