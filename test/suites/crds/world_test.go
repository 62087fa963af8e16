package crds

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/test/support/env"
)

// soon bounds how long something quick may take on a busy machine.
const soon = env.Soon

var (
	crds    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets = schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "widgets"}
)

// hubOfAll is the hub that the tests of this package share; each test has spaces of its
// own.
type hubOfAll struct{ *env.Hub }

func TestCRDs(t *testing.T) {
	h := hubOfAll{env.StartHub(t)}
	for name, test := range map[string]func(*testing.T, hubOfAll){
		"usable at once":     usableAtOnce,
		"kubectl":            kubectl,
		"two meanings":       twoMeanings,
		"informer":           informer,
		"inert conversion":   inertConversion,
		"held deletion":      heldDeletion,
		"large definitions":  largeDefinitions,
		"many definitions":   manyDefinitions,
		"names heal":         namesHeal,
		"one in every space": oneInEverySpace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}

// space is a space of a test.
type space struct {
	t          *testing.T
	name       string
	kubeconfig string
	client     dynamic.Interface
}

func (h hubOfAll) space(t *testing.T, name string) space {
	t.Helper()
	env.CreateSpace(t, h.Kubeconfig, name)
	client, err := dynamic.NewForConfig(h.PathConfig("spaces/" + name))
	if err != nil {
		t.Fatal(err)
	}
	return space{t: t, name: name, kubeconfig: h.PathKubeconfig("spaces/" + name), client: client}
}

func (s space) kubectl(args ...string) string {
	s.t.Helper()
	return env.Kubectl(s.t, s.kubeconfig, args...)
}

func (s space) apply(yaml string, args ...string) {
	s.t.Helper()
	env.KubectlIn(s.t, s.kubeconfig, yaml, append([]string{"apply", "-f", "-"}, args...)...)
}

// prints runs kubectl and compares what it prints.
func (s space) prints(want string, args ...string) {
	s.t.Helper()
	if out := s.kubectl(args...); !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		s.t.Errorf("kubectl %s printed:\n%s\nwant %q in it", strings.Join(args, " "), out, want)
	}
}

func (s space) refuses(want, yaml string) {
	s.t.Helper()
	c := env.Command{Binary: "kubectl", Kubeconfig: s.kubeconfig, Args: []string{"apply", "--server-side", "-f", "-"}, Stdin: yaml}
	if out := c.Fails(s.t); !strings.Contains(out, want) {
		s.t.Errorf("refused with:\n%s\nwant %q in it", out, want)
	}
}

// crd is a CRD of shop.example, of which the schema of the spec is given.
func crd(plural, kind, spec, more string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {plural: %[1]s, kind: %[2]s, shortNames: [%[3]s], categories: [all, goods]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: %[4]s
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
%[5]s`, plural, kind, plural[:2], spec, more)
}

func object(t *testing.T, yaml string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: parse(t, yaml)}
}

func widget(name, spec string) string {
	return fmt.Sprintf("{apiVersion: shop.example/v1, kind: Widget, metadata: {name: %s, namespace: default}, spec: %s}", name, spec)
}

func (s space) ctx() context.Context { return s.t.Context() }
