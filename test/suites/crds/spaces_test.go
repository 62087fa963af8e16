package crds

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/env"
)

// file writes a text to a file and returns its name.
func (s space) file(text string) string {
	s.t.Helper()
	name := filepath.Join(s.t.TempDir(), "file.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return name
}

func withCodec(config *rest.Config) *rest.Config {
	config.GroupVersion = &schema.GroupVersion{}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()
	return config
}

// warnings are those that a client was sent.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// twoMeanings has two spaces define the same resource with different schemas, scopes,
// kinds and versions, and shows that each goes by its own.
func twoMeanings(t *testing.T, h hubOfAll) {
	one, two := h.space(t, "one-meaning"), h.space(t, "other-meaning")
	one.apply(crd("widgets", "Widget", widgetSpec, widgetMore))
	other := strings.NewReplacer("scope: Namespaced", "scope: Cluster", "kind: Widget", "kind: Gadget", "name: v1", "name: v1beta1").
		Replace(crd("widgets", "Widget", "{type: object, properties: {size: {type: string, description: Small or large., default: small}}}", "    additionalPrinterColumns: [{name: Much, type: string, jsonPath: .spec.size}]\n"))
	two.apply(other)
	gadget := "{apiVersion: shop.example/v1beta1, kind: Gadget, metadata: {name: a}, spec: {}}"
	one.apply(widget("a", "{size: 1}"), "--server-side")
	two.apply(gadget, "--server-side")
	one.refuses("spec.size", widget("b", "{size: large}"))
	two.refuses("spec.size", strings.Replace(gadget, "spec: {}", "spec: {size: 1}", 1))
	two.refuses("no matches for kind", widget("a", "{size: 1}"))
	one.prints("a 1", "get", "widgets", "--no-headers")
	two.prints("a small", "get", "widgets", "--no-headers")
	one.prints("How large it is.", "explain", "widget.spec.size")
	two.prints("Small or large.", "explain", "gadget.spec.size")
	one.prints("red", "get", "widget", "a", "-o", "jsonpath={.spec.colour}")
	two.prints("Gadget", "api-resources", "--api-group=shop.example", "--namespaced=false")

	everywhere, err := metadata.NewForConfig(h.PathConfig("spaces/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"v1", "v1beta1"} {
		list, err := everywhere.Resource(schema.GroupVersionResource{Group: "shop.example", Version: v, Resource: "widgets"}).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, o := range list.Items {
			if s := o.Annotations["orrery.dev/space"]; s == one.name || s == two.name {
				seen[s] = o.Namespace + "/" + o.Name
			}
		}
		if fmt.Sprint(seen) != "map[one-meaning:default/a other-meaning:/a]" {
			t.Errorf("all spaces by %s: %v", v, seen)
		}
	}
	all, err := dynamic.NewForConfig(h.PathConfig("spaces/*"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := all.Resource(widgets).List(t.Context(), metav1.ListOptions{})
	if err != nil || list.GetKind() != "PartialObjectMetadataList" {
		t.Errorf("all spaces: %v %v", list, err)
	}
	one.kubectl("delete", "crd", "widgets.shop.example")
	two.prints("a small", "get", "widgets", "--no-headers")
}

// heldDeletion shows that the status of a terminating CRD names the finalizers that block it.
func heldDeletion(t *testing.T, h hubOfAll) {
	s := h.space(t, "held")
	s.apply(crd("widgets", "Widget", anySpec, ""))
	s.apply(strings.Replace(widget("a", "{}"), "name: a", "name: a, finalizers: [example.org/wait]", 1))
	s.apply(widget("b", "{}"))
	s.kubectl("delete", "crd", "widgets.shop.example", "--wait=false")
	env.Eventually(t, soon, func() error {
		out, err := env.TryKubectl(s.t, s.kubeconfig, "get", "crd", "widgets.shop.example", "-o", `jsonpath={.status.conditions[?(@.type=="Terminating")].message}`)
		if err != nil {
			return err
		}
		if !strings.Contains(out, "example.org/wait in 1") {
			return fmt.Errorf("it says %q", out)
		}
		return nil
	})
	s.prints("widget.shop.example/a", "get", "widgets", "-o", "name")
	s.kubectl("patch", "widget", "a", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	s.kubectl("wait", "--for=delete", "crd/widgets.shop.example", "--timeout="+soon.String())
}

// largeDefinitions shows that CRDs are accepted up to the size of an object, and refused
// above it with a message that says so.
func largeDefinitions(t *testing.T, h hubOfAll) {
	s := h.space(t, "large")
	define := func(bytes int) error {
		description, _ := json.Marshal(strings.Repeat("x", bytes))
		definition := object(t, crd("widgets", "Widget", "{type: object, description: "+string(description)+"}", ""))
		_, err := s.client.Resource(crds).Apply(s.ctx(), "widgets.shop.example", definition, metav1.ApplyOptions{FieldManager: "m"})
		return err
	}
	if err := define(1_000_000); err != nil {
		t.Errorf("a definition of 1 MB: %v", err)
	}
	s.prints("", "explain", "widget.spec")
	if err := define(2_000_000); !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a definition of 2 MB: %v", err)
	}
}

// manyDefinitions creates and deletes CRDs while others are used.
func manyDefinitions(t *testing.T, h hubOfAll) {
	s := h.space(t, "many")
	var users sync.WaitGroup
	for u := range 4 {
		users.Go(func() {
			for i := range 10 {
				name := fmt.Sprintf("%cs%d", 'a'+u, i)
				definition := object(t, strings.Replace(crd(name, "K"+name, anySpec, ""), "shortNames: ["+name[:2]+"], ", "", 1))
				if _, err := s.client.Resource(crds).Create(s.ctx(), definition, metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
				things := s.client.Resource(widgets.GroupVersion().WithResource(name)).Namespace("default")
				if _, err := things.Create(s.ctx(), object(t, strings.Replace(widget("a", "{}"), "Widget", "K"+name, 1)), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				if err := s.client.Resource(crds).Delete(s.ctx(), name+".shop.example", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
	env.Eventually(t, soon, func() error {
		list, err := s.client.Resource(crds).List(s.ctx(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d definitions are left", len(list.Items))
		}
		return err
	})
}

// namesHeal shows that a CRD that was refused a name gets it when the name is free,
// without a write to that CRD.
func namesHeal(t *testing.T, h hubOfAll) {
	s := h.space(t, "names")
	s.apply(crd("widgets", "Widget", anySpec, ""))
	s.apply(crd("wizards", "Wizard", anySpec, ""))
	s.prints("False", "get", "crd", "wizards.shop.example", "-o", `jsonpath={.status.conditions[?(@.type=="NamesAccepted")].status}`)
	s.kubectl("patch", "crd", "widgets.shop.example", "--type=merge", "-p", `{"spec":{"names":{"shortNames":["wd"]}}}`)
	s.kubectl("wait", "--for=condition=NamesAccepted", "crd/wizards.shop.example", "--timeout="+soon.String())
	s.prints("wizards wi", "api-resources", "--api-group=shop.example")
}

// oneInEverySpace defines the same CRD in many spaces, which share its compiled form.
func oneInEverySpace(t *testing.T, h hubOfAll) {
	const spaces = 8
	var users sync.WaitGroup
	for i := range spaces {
		s := h.space(t, fmt.Sprintf("every-%d", i))
		users.Go(func() {
			if _, err := s.client.Resource(crds).Create(s.ctx(), object(t, crd("widgets", "Widget", widgetSpec, widgetMore)), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			made, err := s.client.Resource(widgets).Namespace("default").Create(s.ctx(), object(t, widget("a", "{size: 1}")), metav1.CreateOptions{})
			if err != nil || made.Object["spec"].(map[string]any)["colour"] != "red" {
				t.Errorf("%v %v", made, err)
			}
		})
	}
	users.Wait()
}
