package write

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/protocol/key"
)

// Write is a put that needs room in the log.
type Write struct {
	Space key.Space
	// Bytes is the size of key and value.
	Bytes int
	// Grows says that it makes an object larger; Ends, that it is a step of a deletion,
	// which may do so a little because it makes room in the end.
	Grows, Ends bool
	// ByUser says that a client asked for it.
	ByUser bool
}

// Room makes every put wait until there is room for it in the log.
type Room interface {
	// Admit returns when the write may be made, or fails if it may not. done must be called
	// with the write's error, and returns the error for the client.
	Admit(ctx context.Context, w Write) (done func(error) error, err error)
}

// reserve counts a put of value at a key of etcd towards the limits of its space, or
// refuses it.
func (p ownedPuts) reserve(ctx context.Context, etcdKey string, value []byte) (done func(rev int64), err error) {
	k := strings.TrimPrefix(etcdKey, p.prefix)
	bound := quota.Unbound
	if byUser(ctx) {
		bound = quota.ByDefaults
	}
	done, err = p.limits.Reserve(k, value, bound)
	var exceeded *quota.ExceededError
	if !errors.As(err, &exceeded) {
		return done, err
	}
	o, err := key.ParseObject(k)
	if err != nil {
		return nil, err
	}
	return nil, apierrors.NewForbidden(schema.GroupResource{Group: o.APIGroup(), Resource: o.Resource.Resource}, o.Name, exceeded)
}

// writeOf describes a put of value at a key of etcd.
func (p ownedPuts) writeOf(ctx context.Context, etcdKey string, value []byte) Write {
	k := strings.TrimPrefix(etcdKey, p.prefix)
	s, _, _, _ := key.Split(k)
	w := Write{Space: s, Bytes: len(k) + len(value), ByUser: byUser(ctx)}
	w.Grows, w.Ends = p.limits.Effect(k, value)
	return w
}

// byUser says whether a client asked for the write.
func byUser(ctx context.Context) bool {
	_, ok := request.UserFrom(ctx)
	return ok
}

// endless is a log that always has room.
type endless struct{}

// Admit implements Room.
func (endless) Admit(context.Context, Write) (func(error) error, error) {
	return func(err error) error { return err }, nil
}
