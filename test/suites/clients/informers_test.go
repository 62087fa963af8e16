package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"orrery.dev/orrery/test/support/env"
)

var (
	configMaps        = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	campaignResources = schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "campaigns"}
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// TestTypedInformers shows that informers of every kind that client-go knows, with both
// encodings and both ways to begin, sync, follow changes, and are right again after a
// restart of the hub.
func TestTypedInformers(t *testing.T) {
	s := newSpace(t)
	for _, encoding := range []string{protobufType, jsonType} {
		for _, streaming := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s,streaming=%t", encoding[strings.LastIndex(encoding, ".")+1:], streaming), func(t *testing.T) {
				featurestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, streaming)
				typedInformers(t, s, encoding, streaming)
			})
		}
	}
}

func typedInformers(t *testing.T, s *space, encoding string, streaming bool) {
	var log traffic
	config := s.config()
	config.ContentType, config.AcceptContentTypes = encoding, encoding
	config = log.recording(config)
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(client, 0)
	started := everyKind(t, config, factory)
	if len(started) < 40 {
		t.Fatalf("client-go knows only %d of the space's resources: %v", len(started), slices.Collect(maps.Keys(started)))
	}
	stop := start(t, factory.Start)
	defer func() { stop(); factory.Shutdown() }()
	for resource, informer := range started {
		if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
			t.Fatalf("%s is not synced", resource)
		}
		if _, began := log.any(resource.Resource, "sendInitialEvents=true"); began != streaming {
			t.Errorf("%s: the informer asked for a streaming list: %t, want %t", resource, began, streaming)
		}
	}
	if answered, _ := log.any("configmaps", ""); !strings.HasPrefix(answered, encoding) {
		t.Errorf("the answer was %q, want %q", answered, encoding)
	}

	maps := client.CoreV1().ConfigMaps("default")
	follow(t, started[configMaps], maps)
	s.hub.Restart()
	follow(t, started[configMaps], maps)
}

// follow changes ConfigMaps, and waits until the informer shows exactly that.
func follow(t *testing.T, informer cache.SharedIndexInformer, client interface {
	Create(context.Context, *corev1.ConfigMap, metav1.CreateOptions) (*corev1.ConfigMap, error)
	Update(context.Context, *corev1.ConfigMap, metav1.UpdateOptions) (*corev1.ConfigMap, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
},
) {
	t.Helper()
	for _, name := range []string{"changed", "deleted"} {
		made, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		shows(t, informer, "default/"+name, made.ResourceVersion)
	}
	updated, err := client.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "changed"}, Data: map[string]string{"a": "b"}}, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shows(t, informer, "default/changed", updated.ResourceVersion)
	for _, name := range []string{"changed", "deleted"} {
		if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		shows(t, informer, "default/"+name, "")
	}
}

// shows waits until the informer has an object at a resource version; "": until it
// has no such object.
func shows(t *testing.T, informer cache.SharedIndexInformer, key, version string) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		o, found, err := informer.GetStore().GetByKey(key)
		if err != nil || !found && version == "" {
			return err
		}
		if !found {
			return fmt.Errorf("the informer has no %s", key)
		}
		m, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		if m.GetResourceVersion() != version {
			return fmt.Errorf("the informer has %s at %q, want %q", key, m.GetResourceVersion(), version)
		}
		return nil
	})
}

// everyKind asks the factory for an informer of each resource of the space that
// client-go has a type for.
func everyKind(t *testing.T, config *rest.Config, factory informers.SharedInformerFactory) map[schema.GroupVersionResource]cache.SharedIndexInformer {
	t.Helper()
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	all := map[schema.GroupVersionResource]cache.SharedIndexInformer{}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if informer, err := factory.ForResource(gv.WithResource(r.Name)); err == nil {
				all[gv.WithResource(r.Name)] = informer.Informer()
			}
		}
	}
	return all
}

// start runs what takes a channel that stops it.
func start(t *testing.T, run func(<-chan struct{})) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	run(ctx.Done())
	return cancel
}

// TestInformerBeforeItsKind shows that an informer that begins before its kind exists
// shows the objects once it does, and loses them with the kind.
func TestInformerBeforeItsKind(t *testing.T) {
	for _, streaming := range []bool{true, false} {
		t.Run(fmt.Sprintf("streaming=%t", streaming), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, streaming)
			s := newSpace(t)
			var log traffic
			client := dynamic.NewForConfigOrDie(log.recording(s.config()))
			factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
			informer := factory.ForResource(campaignResources).Informer()
			onlyMetadata := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(s.config()), 0)
			partial := onlyMetadata.ForResource(campaignResources).Informer()
			stop := start(t, func(done <-chan struct{}) { factory.Start(done); onlyMetadata.Start(done) })
			defer func() { stop(); factory.Shutdown(); onlyMetadata.Shutdown() }()
			env.Eventually(t, soon, func() error {
				if _, requested := log.any("campaigns", ""); !requested {
					return errors.New("the informer has sent no request")
				}
				return nil
			})

			s.apply(t, campaigns)
			made, err := client.Resource(campaignResources).Namespace("default").Create(t.Context(), campaign("spring"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			shows(t, informer, "default/spring", made.GetResourceVersion())
			shows(t, partial, "default/spring", made.GetResourceVersion())
			o, _, _ := informer.GetStore().GetByKey("default/spring")
			if discount, _, _ := unstructured.NestedInt64(content(t, o), "spec", "discount"); discount != 10 {
				t.Errorf("the discount is %d, want the default", discount)
			}
			s.hub.Restart()
			if err := client.Resource(campaignResources).Namespace("default").Delete(t.Context(), "spring", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			shows(t, informer, "default/spring", "")
			shows(t, partial, "default/spring", "")
		})
	}
}

func campaign(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "shop.example/v1", "kind": "Campaign",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"product": "telescope"},
	}}
}

func content(t *testing.T, o any) map[string]any {
	t.Helper()
	u, ok := o.(runtime.Unstructured)
	if !ok {
		t.Fatalf("the informer has a %T", o)
	}
	return u.UnstructuredContent()
}
