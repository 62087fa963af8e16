package space

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// limits refuses what would make a space larger than its Space object allows.
// It asks at the last moment, when the bytes to be stored are known.
type limits struct {
	table  *table.Table
	usage  *Usage
	prefix string
}

// ExceededError says which limits of its space a write would exceed.
type ExceededError struct {
	Space key.Space
	// Limits names them, Text says by how much, in the words of a ResourceQuota.
	Limits []string
	Text   string
}

// Error says it to people.
func (e *ExceededError) Error() string {
	return fmt.Sprintf("exceeded limits of space %q: %s", e.Space, e.Text)
}

// Reserve counts a write of value at an object's key that a location asked for, as the
// return of its status, towards the limits of the space, or refuses it with an
// ExceededError. done must be called with the revision of the write, or 0 if nothing
// was written.
func (s *Server) Reserve(k string, value []byte) (done func(rev int64), err error) {
	return s.limits.take(k, value, true)
}

// Exceeds asks whether a value of a size at an object's key exceeds limits; nil: none.
// It is cheap, and reserves nothing.
func (s *Server) Exceeds(k string, size int) (*ExceededError, error) {
	space, r, _, ok := key.Split(k)
	if !ok || space == key.Root {
		return nil, nil
	}
	of, err := s.limits.of(space)
	if err != nil {
		return nil, err
	}
	before, _ := s.config.Table.Get(k)
	return exceeds(space, of, s.config.Usage.Of(space), amount(r, size).minus(amountOf(r, before)), int64(size)), nil
}

// reserve counts a write of value at a key of etcd towards the limits of its
// space, or refuses it. What the hub itself writes, and the steps of a
// deletion, are counted and never refused: a full space can be emptied.
func (l limits) reserve(ctx context.Context, etcdKey string, value []byte) (done func(rev int64), err error) {
	k := strings.TrimPrefix(etcdKey, l.prefix)
	done, err = l.take(k, value, byUser(ctx))
	var exceeded *ExceededError
	if !errors.As(err, &exceeded) {
		return done, err
	}
	o, err := key.ParseObject(k)
	if err != nil {
		return nil, err
	}
	return nil, apierrors.NewForbidden(schema.GroupResource{Group: o.APIGroup(), Resource: o.Resource.Resource}, o.Name, exceeded)
}

// take counts a write, and refuses it if it is bound by limits that it exceeds.
func (l limits) take(k string, value []byte, bound bool) (done func(rev int64), err error) {
	s, r, _, ok := key.Split(k)
	if !ok || s == key.Root {
		return func(int64) {}, nil
	}
	before, _ := l.table.Get(k)
	more := amount(r, len(value)).minus(amountOf(r, before))
	var of v1alpha1.SpaceLimits
	if bound && !goes(before, value, l.usage.slack(k)) {
		if of, err = l.of(s); err != nil {
			return nil, err
		}
	}
	return l.usage.reserve(s, more, func(used Amount) error {
		if e := exceeds(s, of, used, more, int64(len(value))); e != nil {
			return e
		}
		return nil
	})
}

// of are the limits of a space, none if it has none.
func (l limits) of(s key.Space) (v1alpha1.SpaceLimits, error) {
	var of v1alpha1.SpaceLimits
	row, _ := l.table.Get(s.Key())
	if row == nil {
		return of, nil // one that is gone is found by who asks for its owners
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

// exceeds says which limits a write would exceed, in the words of a
// ResourceQuota; nil: none. What does not grow exceeds nothing.
func exceeds(s key.Space, of v1alpha1.SpaceLimits, used, more Amount, size int64) *ExceededError {
	var names, all []string
	check := func(name string, more, used int64, limit *int64) {
		if limit != nil && more > 0 && used+more > *limit {
			names = append(names, name)
			all = append(all, fmt.Sprintf("requested: %s=%d, used: %s=%d, limited: %s=%d", name, more, name, used, name, *limit))
		}
	}
	check("objects", more.Objects, used.Objects, of.Objects)
	check("crds", more.CRDs, used.CRDs, of.CRDs)
	if of.Bytes != nil {
		limit := of.Bytes.Value()
		check("bytes", more.Bytes, used.Bytes, &limit)
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

// byUser says whether a write was asked for by a client.
func byUser(ctx context.Context) bool {
	_, ok := request.UserFrom(ctx)
	return ok
}

// endingSlack is by how much an object may grow in all while it is being deleted: by
// conditions, and by who wrote them. More is no part of its end.
const endingSlack = 4 << 10

// goes says whether a write is a step of an object's deletion: it marks the object,
// or takes a finalizer away. It may make the object a little larger all the same.
func goes(before *table.Row, value []byte, slack int) bool {
	if before == nil || len(value) > len(before.Value)+slack || !gjson.GetBytes(value, "metadata.deletionTimestamp").Exists() {
		return false
	}
	const finalizers = "metadata.finalizers.#"
	return !before.Meta.Deleting || gjson.GetBytes(value, finalizers).Int() < gjson.GetBytes(before.Value, finalizers).Int()
}
