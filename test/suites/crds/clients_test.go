package crds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/limit"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	object = nil
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

const anySpec = "{type: object, x-kubernetes-preserve-unknown-fields: true}"

// usableAtOnce uses a resource in the first request after its CRD is created, and finds
// nothing of it in the first after the CRD is gone.
func usableAtOnce(t *testing.T, h hubOfAll) {
	s := h.space(t, "at-once")
	config := h.PathConfig("spaces/at-once")
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]func(name string) error{
		"create": func(name string) error {
			_, err := s.client.Resource(widgets.GroupVersion().WithResource(name)).Namespace("default").Create(s.ctx(), object(t, strings.Replace(widget("a", "{}"), "Widget", "K"+name, 1)), metav1.CreateOptions{})
			return err
		},
		"apply": func(name string) error {
			_, err := s.client.Resource(widgets.GroupVersion().WithResource(name)).Namespace("default").Apply(s.ctx(), "a", object(t, strings.Replace(widget("a", "{}"), "Widget", "K"+name, 1)), metav1.ApplyOptions{FieldManager: "m"})
			return err
		},
		"list": func(name string) error {
			_, err := s.client.Resource(widgets.GroupVersion().WithResource(name)).List(s.ctx(), metav1.ListOptions{})
			return err
		},
		"watch": func(name string) error {
			w, err := s.client.Resource(widgets.GroupVersion().WithResource(name)).Watch(s.ctx(), metav1.ListOptions{})
			if err == nil {
				w.Stop()
			}
			return err
		},
		"discover": func(name string) error {
			_, lists, err := disco.ServerGroupsAndResources()
			if err == nil && !strings.Contains(fmt.Sprint(lists), name) {
				err = fmt.Errorf("no %s in discovery", name)
			}
			return err
		},
		"describe": func(name string) error {
			body, err := disco.RESTClient().Get().AbsPath("/openapi/v3/apis/shop.example/v1").DoRaw(s.ctx())
			if err == nil && !strings.Contains(string(body), "K"+name) {
				err = fmt.Errorf("no %s in its document", name)
			}
			return err
		},
	}
	for verb, request := range next {
		for i := range 3 {
			name := fmt.Sprintf("%ss%d", verb, i)
			definition := object(t, strings.Replace(crd(name, "K"+name, anySpec, ""), "shortNames: ["+name[:2]+"], ", "", 1))
			if _, err := s.client.Resource(crds).Create(s.ctx(), definition, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := request(name); err != nil {
				t.Errorf("%s right after the definition: %v", verb, err)
			}
		}
	}
}

const widgetSpec = "{type: object, required: [size], properties: {size: {type: integer, description: How large it is.}, colour: {type: string, default: red}, replicas: {type: integer, default: 1}, made: {type: string, format: date-time}}}"

const widgetMore = `    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    selectableFields: [{jsonPath: .spec.colour}]
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Colour, type: string, jsonPath: .spec.colour, priority: 1}
    - {name: Made, type: date, jsonPath: .spec.made}
`

func kubectl(t *testing.T, h hubOfAll) {
	s := h.space(t, "kubectl")
	definition := crd("widgets", "Widget", widgetSpec, widgetMore)
	s.apply(definition)
	s.prints("widgets wi shop.example/v1 true Widget", "api-resources", "--api-group=shop.example")
	s.apply(widget("a", "{size: 3, made: '2020-01-01T00:00:00Z'}"))
	s.apply(widget("b", "{size: 4, colour: blue}"), "--server-side")
	s.prints("NAME SIZE MADE", "get", "widgets")
	for _, name := range []string{"widgets", "widget", "wi", "widgets.shop.example", "widgets.v1.shop.example", "goods", "all"} {
		s.prints("/b 4", "get", name, "--show-kind", "--no-headers")
	}
	s.prints("COLOUR", "get", "wi", "-o", "wide")
	s.prints("b 4 blue", "get", "wi", "-o", "wide", "--no-headers", "--field-selector=spec.colour=blue")
	s.prints("How large it is.", "explain", "widget.spec.size")
	s.prints("colour <string> made <string> replicas <integer> size <integer> -required-", "explain", "widgets.spec", "--output=plaintext-openapiv2")
	s.prints("scaled", "scale", "widget/a", "--replicas=5")
	s.prints("5", "get", "wi", "a", "-o", "jsonpath={.spec.replicas}")
	s.prints("unchanged", "apply", "-f", s.file(definition))
	s.prints("serverside-applied", "apply", "--server-side", "--force-conflicts", "-f", s.file(definition))
	s.prints("condition met", "wait", "--for=condition=Established", "crd/widgets.shop.example", limit.Flag())
	s.prints("Size: 3", "describe", "widget", "a")
	s.prints("deleted", "delete", "wi", "--field-selector=spec.colour=blue")
	s.refuses("spec.size: Required value", widget("c", "{}"))
	s.refuses(".spec.sise: field not declared in schema", widget("c", "{size: 1, sise: 2}"))
	if out := env.KubectlFails(t, s.kubeconfig, "apply", "-f", s.file(widget("c", "{size: 1, sise: 2}"))); !strings.Contains(out, `unknown field "spec.sise"`) {
		t.Errorf("apply of an unknown field: %s", out)
	}
	s.prints("deleted", "delete", "crd", "widgets.shop.example", "--wait")
	if out := env.KubectlFails(t, s.kubeconfig, "get", "widgets"); !strings.Contains(out, "could not find the requested resource") && !strings.Contains(out, "doesn't have a resource type") {
		t.Errorf("get of a kind that is gone: %s", out)
	}
	s.apply(definition)
	s.prints("", "get", "widgets", "--no-headers")
}

// inertConversion shows that a webhook strategy is kept, that the status says it is not
// called, and that versions are converted by name.
func inertConversion(t *testing.T, h hubOfAll) {
	s := h.space(t, "conversion")
	second := `  - name: v2
    served: true
    storage: false
    deprecated: true
    schema: {openAPIV3Schema: ` + anySpec + `}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {url: "https://nobody.invalid/convert"}
`
	definition := crd("widgets", "Widget", anySpec, second)
	s.apply(definition)
	s.prints("True WebhookNotCalled Webhook", "get", "crd", "widgets.shop.example", "-o",
		`jsonpath={.status.conditions[?(@.type=="ConversionInert")].status} {.status.conditions[?(@.type=="ConversionInert")].reason} {.spec.conversion.strategy}`)
	s.apply(widget("a", "{x: 1}"))
	s.prints("shop.example/v2 1", "get", "widgets.v2.shop.example", "a", "-o", "jsonpath={.apiVersion} {.spec.x}")
	s.prints("https://nobody.invalid/convert", "get", "crd", "widgets.shop.example", "-o", "yaml")
	var warned warnings
	config := rest.CopyConfig(h.PathConfig("spaces/conversion"))
	config.WarningHandler = &warned
	client, err := rest.UnversionedRESTClientFor(withCodec(config))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{http.MethodGet, http.MethodDelete} {
		if err := client.Verb(verb).AbsPath("/apis/shop.example/v2/namespaces/default/widgets/a").Do(s.ctx()).Error(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(warned.taken()); !strings.Contains(got, "shop.example/v2 Widget is deprecated") {
			t.Errorf("%s warned of %q", verb, got)
		}
	}
	s.apply(strings.Replace(definition, second[strings.Index(second, "  conversion"):], "  conversion: {strategy: None}\n", 1))
	s.prints("[]", "get", "crd", "widgets.shop.example", "-o", `jsonpath=[{.status.conditions[?(@.type=="ConversionInert")].status}]`)
}
