package write

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// EnsureNamespace creates a namespace of a space unless the table contains it.
func (s *Server) EnsureNamespace(ctx context.Context, space key.Space, name string) error {
	o := key.Object{Space: space, Identity: key.Identity{Resource: key.Namespaces, Name: name}}
	if row, _ := s.config.Table.Get(o.Key()); row != nil {
		return nil
	}
	r, err := s.builtin(key.Namespaces)
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err = r.objects.Create(withRequest(ctx, space, r.kind, metav1.NamespaceNone), ns, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %q in space %q: %w", name, space, err)
	}
	return nil
}

// withRequest adds to the context the space, namespace and kind of written objects, so that errors
// name the resource.
func withRequest(ctx context.Context, space key.Space, kind *kinds.Kind, namespace string) context.Context {
	ctx = request.WithNamespace(WithSpace(ctx, space), namespace)
	return request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, APIGroup: kind.GVR.Group, APIVersion: kind.GVR.Version, Resource: kind.GVR.Resource,
	})
}

// builtin returns the resource of a built-in kind.
func (s *Server) builtin(r key.Resource) (*resource, error) {
	kind, ok := s.config.Kinds.Builtin(key.Root).ForStorage(r)
	if !ok {
		return nil, fmt.Errorf("find kind of %q: not built in", r)
	}
	return s.resourceOf(kind)
}
