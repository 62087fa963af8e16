package world

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"orrery.dev/orrery/test/support/env"
)

// Find reads an object of the site's cluster by the names that `kubectl -n NAMESPACE get RESOURCE/NAME`
// takes. A wait calls it again and again, and kubectl would start a process each time, which takes many
// times as long. As in kubectl, the resources are those that the cluster serves now.
func (s *Site) Find(t env.T, namespace, object string) (*unstructured.Unstructured, error) {
	t.Helper()
	resource, name, isObject := strings.Cut(object, "/")
	if !isObject {
		t.Fatalf("find %q: want RESOURCE/NAME", object)
	}
	config := rest.CopyConfig(s.Cluster.Config)
	config.WarningHandler = rest.NoWarnings{} // the resource may be deprecated
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	served := memory.NewMemCacheClient(client)
	groups, err := restmapper.GetAPIGroupResources(served)
	if err != nil {
		return nil, err
	}
	mapping, err := mappingOf(restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), served, nil), resource)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", object, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	} else if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return In(Dynamic(t, config), mapping.Resource, namespace).Get(t.Context(), name, metav1.GetOptions{})
}

// mappingOf resolves a resource as kubectl does: RESOURCE, RESOURCE.GROUP or RESOURCE.VERSION.GROUP.
func mappingOf(resources meta.RESTMapper, resource string) (*meta.RESTMapping, error) {
	full, short := schema.ParseResourceArg(resource)
	var kind schema.GroupVersionKind
	if full != nil {
		kind, _ = resources.KindFor(*full) // it may be RESOURCE.GROUP, with a dot in the group
	}
	if kind.Empty() {
		var err error
		if kind, err = resources.KindFor(short.WithVersion("")); err != nil {
			return nil, err
		}
	}
	return resources.RESTMapping(kind.GroupKind(), kind.Version)
}
