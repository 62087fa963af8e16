package space

import (
	"context"
	"encoding/json"
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

// reserve counts a write of value at a key of etcd towards the limits of its
// space, or refuses it. What the hub itself writes, and the steps of a
// deletion, are counted and never refused: a full space can be emptied.
func (l limits) reserve(ctx context.Context, etcdKey string, value []byte) (done func(rev int64), err error) {
	k := strings.TrimPrefix(etcdKey, l.prefix)
	s, r, ok := ownerOf(k)
	if !ok || s == key.Root {
		return func(int64) {}, nil
	}
	before, _ := l.table.Get(k)
	more := amount(r, len(value)).minus(amountOf(r, before))
	var of v1alpha1.SpaceLimits
	if byUser(ctx) && !goes(before, value) {
		if of, err = l.of(s); err != nil {
			return nil, err
		}
	}
	return l.usage.reserve(s, more, func(used Amount) error {
		if exceeded := exceeds(of, used, more, int64(len(value))); exceeded != "" {
			o, err := key.ParseObject(k)
			if err != nil {
				return err
			}
			return apierrors.NewForbidden(schema.GroupResource{Group: r.APIGroup(), Resource: r.Resource}, o.Name,
				fmt.Errorf("exceeded limits of space %q: %s", s, exceeded))
		}
		return nil
	})
}

// of are the limits of a space, none if it has none.
func (l limits) of(s key.Space) (v1alpha1.SpaceLimits, error) {
	var of v1alpha1.SpaceLimits
	row, _ := l.table.Get(key.Object{Space: key.Root, Identity: key.Identity{Resource: key.Spaces, Name: string(s)}}.Key())
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
// ResourceQuota; empty: none. What does not grow exceeds nothing.
func exceeds(of v1alpha1.SpaceLimits, used, more Amount, size int64) string {
	var all []string
	check := func(name string, more, used int64, limit *int64) {
		if limit != nil && more > 0 && used+more > *limit {
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
		all = append(all, fmt.Sprintf("requested: objectBytes=%d, limited: objectBytes=%d", size, of.ObjectBytes.Value()))
	}
	return strings.Join(all, "; ")
}

// byUser says whether a write was asked for by a client.
func byUser(ctx context.Context) bool {
	_, ok := request.UserFrom(ctx)
	return ok
}

// endingSlack is by how much a write to an object that is being deleted may make it
// larger: by a timestamp, a condition, and who wrote them. More is no part of its end.
const endingSlack = 4 << 10

// goes says whether a write is a step of an object's deletion: it marks the object,
// or takes a finalizer away. It may make the object a little larger all the same.
func goes(before *table.Row, value []byte) bool {
	if before == nil || len(value) > len(before.Value)+endingSlack || !gjson.GetBytes(value, "metadata.deletionTimestamp").Exists() {
		return false
	}
	const finalizers = "metadata.finalizers.#"
	return !before.Meta.Deleting || gjson.GetBytes(value, finalizers).Int() < gjson.GetBytes(before.Value, finalizers).Int()
}
