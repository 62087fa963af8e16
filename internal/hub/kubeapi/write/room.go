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

// Write describes a put into the log.
type Write struct {
	Space key.Space
	// Bytes is the size of key and value.
	Bytes int
	// Grows reports whether it makes an object larger. Ends reports whether it is a step of a
	// deletion, which may grow an object a little, because it frees space in the end.
	Grows, Ends bool
	// ByUser reports whether a client requested it.
	ByUser bool
}

// Room delays each put until the log has space for it.
type Room interface {
	// Admit blocks until the write may be made, or fails. The caller must call done with the error
	// of the write; done returns the error for the client.
	Admit(ctx context.Context, w Write) (done func(error) error, err error)
}

// reserve counts a put of value at an etcd key toward the limits of its space, or refuses it.
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

// writeOf describes a put of value at an etcd key.
func (p ownedPuts) writeOf(ctx context.Context, etcdKey string, value []byte) Write {
	k := strings.TrimPrefix(etcdKey, p.prefix)
	s, _, _, _ := key.Split(k)
	w := Write{Space: s, Bytes: len(k) + len(value), ByUser: byUser(ctx)}
	w.Grows, w.Ends = p.limits.Effect(k, value)
	return w
}

// byUser reports whether a client requested the write.
func byUser(ctx context.Context) bool {
	_, ok := request.UserFrom(ctx)
	return ok
}

// endless is a log without a quota.
type endless struct{}

// Admit implements Room.
func (endless) Admit(context.Context, Write) (func(error) error, error) {
	return func(err error) error { return err }, nil
}
