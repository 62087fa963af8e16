package demo

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// manager is the demo's field manager.
const manager = "orrery-demo"

// api is a client of one Kubernetes API: a space, or a cluster.
type api struct {
	// context is the name of the context in the kubeconfig that the demo writes.
	context   string
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	kinds     *restmapper.DeferredDiscoveryRESTMapper
	dynamic   *dynamic.DynamicClient
	tables    *rest.RESTClient
}

func newAPI(context string, config *rest.Config) (*api, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the servers run on this machine
	direct, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of %q: %w", context, err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of %q: %w", context, err)
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	plain := rest.CopyConfig(config)
	plain.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	tables, err := rest.UnversionedRESTClientFor(plain)
	if err != nil {
		return nil, fmt.Errorf("make a client of %q: %w", context, err)
	}
	cached := memory.NewMemCacheClient(direct)
	return &api{
		context: context, config: config, discovery: cached, dynamic: objects, tables: tables,
		kinds: restmapper.NewDeferredDiscoveryRESTMapper(cached),
	}, nil
}

// objects returns the client for the objects of a mapping.
func (a *api) objects(mapping *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return a.dynamic.Resource(mapping.Resource).Namespace(namespace)
	}
	return a.dynamic.Resource(mapping.Resource)
}

func (a *api) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := a.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) { // the CRD may be newer than the cached discovery
		a.kinds.Reset()
		mapping, err = a.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("find %s in %s: %w", kind.Kind, a.context, err)
	}
	return mapping, nil
}

// apply applies an object server-side.
func (a *api) apply(ctx context.Context, object *unstructured.Unstructured) error {
	mapping, err := a.mapping(object.GroupVersionKind())
	if err != nil {
		return err
	}
	_, err = a.objects(mapping, object.GetNamespace()).Apply(ctx, object.GetName(), object,
		metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		return fmt.Errorf("apply %s %q in %s: %w", object.GetKind(), object.GetName(), a.context, err)
	}
	return nil
}

// get reads the object with the kind, namespace and name of like.
func (a *api) get(ctx context.Context, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	mapping, err := a.mapping(like.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	return a.objects(mapping, like.GetNamespace()).Get(ctx, like.GetName(), metav1.GetOptions{})
}

// delete deletes the object with the kind, namespace and name of like.
func (a *api) delete(ctx context.Context, like *unstructured.Unstructured) error {
	mapping, err := a.mapping(like.GroupVersionKind())
	if err != nil {
		return err
	}
	if err := a.objects(mapping, like.GetNamespace()).Delete(ctx, like.GetName(), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete %s %q in %s: %w", like.GetKind(), like.GetName(), a.context, err)
	}
	return nil
}

// merge changes an object by a JSON merge patch.
func (a *api) merge(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	_, err = a.dynamic.Resource(resource).Namespace(namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		return fmt.Errorf("patch %s %q in %s: %w", resource.Resource, name, a.context, err)
	}
	return nil
}

// table reads objects as a table, like kubectl get.
func (a *api) table(ctx context.Context, mapping *meta.RESTMapping, namespace string) (*metav1.Table, error) {
	resource := mapping.Resource
	path := []string{"/apis", resource.Group, resource.Version}
	if resource.Group == "" {
		path = []string{"/api", resource.Version}
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		path = append(path, "namespaces", namespace)
	}
	body, err := a.tables.Get().AbsPath(append(path, resource.Resource)...).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("list %s in %s: %w", resource.Resource, a.context, err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(body, table); err != nil {
		return nil, fmt.Errorf("list %s in %s: %w", resource.Resource, a.context, err)
	}
	for i := range table.Rows { // the printer needs decoded objects
		object := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(table.Rows[i].Object.Raw, object); err == nil {
			table.Rows[i].Object.Object = object
		}
	}
	return table, nil
}
