package world

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Listed is objects of an API, by GROUP/KIND/NAMESPACE/NAME.
type Listed map[string]*unstructured.Unstructured

// KeyOf is what an object is called in Listed.
func KeyOf(u *unstructured.Unstructured) string {
	return strings.Join([]string{u.GroupVersionKind().Group, u.GetKind(), u.GetNamespace(), u.GetName()}, "/")
}

// ListAll lists everything an API has.
func ListAll(ctx context.Context, c *rest.Config, selector string) (Listed, error) {
	c = rest.CopyConfig(c)
	c.WarningHandler = rest.NoWarnings{} // it lists deprecated kinds, too
	client, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return nil, err
	}
	resources, err := client.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	all := Listed{}
	for _, list := range resources {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			if err := all.Add(ctx, dyn.Resource(gv.WithResource(r.Name)), selector); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// Add lists one resource. A resource that is not served has nothing: its kind may
// have gone since discovery.
func (l Listed) Add(ctx context.Context, r dynamic.ResourceInterface, selector string) error {
	items, err := r.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range items.Items {
		l[KeyOf(&items.Items[i])] = &items.Items[i]
	}
	return nil
}
