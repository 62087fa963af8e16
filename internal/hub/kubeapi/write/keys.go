package write

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// objectOf returns the identity of the object that a request names.
func objectOf(ctx context.Context, kind *kinds.Kind, name string) (key.Object, error) {
	space, ok := SpaceFromContext(ctx)
	if !ok {
		return key.Object{}, apierrors.NewBadRequest("request has no space")
	}
	if err := key.ValidateName(string(space)); err != nil {
		return key.Object{}, apierrors.NewBadRequest("space " + err.Error())
	}
	if name == "" {
		return key.Object{}, apierrors.NewBadRequest("name is required")
	}
	if err := kinds.CheckName(name); err != nil {
		return key.Object{}, err
	}
	o := key.Object{Space: space, Identity: key.Identity{Resource: kind.Resource, Name: name}}
	if kind.Namespaced {
		o.Namespace = request.NamespaceValue(ctx)
		if o.Namespace == "" {
			return key.Object{}, apierrors.NewBadRequest("namespace is required")
		}
	}
	if err := o.Identity.Validate(); err != nil {
		return key.Object{}, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

// keyFunc returns a function that returns the etcd key of an object in the log with a prefix.
func keyFunc(prefix string, kind *kinds.Kind) func(context.Context, string) (string, error) {
	return func(ctx context.Context, name string) (string, error) {
		o, err := objectOf(ctx, kind, name)
		if err != nil {
			return "", err
		}
		return prefix + o.Key(), nil
	}
}

// keyRootFunc returns a function that returns the etcd prefix of the objects of a deletecollection.
// The function can't fail, so an invalid space or namespace gets a prefix below which nothing is
// ever stored.
func keyRootFunc(prefix string, kind *kinds.Kind) func(context.Context) string {
	const nothing = "-"
	return func(ctx context.Context) string {
		o, err := objectOf(ctx, kind, nothing)
		if err != nil {
			return prefix + key.OfPath(nothing)
		}
		root := key.ResourcePrefix(o.Space, o.Resource)
		if kind.Namespaced {
			root = key.NamespacePrefix(o.Space, o.Resource, o.Namespace)
		}
		return prefix + root
	}
}
