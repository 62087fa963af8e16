package ownership

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/test/support/env"
)

// manager is the field manager of the location's agent; its name is marked
// on whatever the agent makes.
func (s *suite) manager() string {
	s.Helper()
	s.write(configMap("proof", "any", "one"))
	s.hasField("proof", "cm/any", ".data.v", "one")
	return "orrery/" + s.there("-n", "proof", "get", "cm", "any", "-o", `jsonpath={.metadata.labels.orrery\.dev/location}`)
}

// thereIn runs kubectl in the cluster of the location, with YAML or JSON as input.
func (s *suite) thereIn(input string, args ...string) {
	s.Helper()
	env.KubectlIn(s, s.site.Cluster.Kubeconfig, input, args...)
}

// proof checks that managed fields alone do not make the agent the owner of an object, since any
// user can write them. The agent does not own an object that it created but did not record before
// it was killed, if its ownership metadata was removed. Nor does it own a copy or an object that a
// backup restored.
func (s *suite) proof() {
	s.namespace("proof")
	s.place("proof", "", "")
	manager := s.manager()

	s.thereIn(configMap("proof", "made", "theirs"), "apply", "--server-side", "--field-manager", manager, "-f", "-")

	// A copy with all managed fields, and what a backup restores: made, then given
	// the fields of what it was.
	fields := s.managedFields("any")
	copied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"v": "theirs"},
		"metadata": map[string]any{"name": "copied", "namespace": "proof"},
	}}
	copied.SetManagedFields(fields)
	s.thereIn(encode(s, copied.Object), "create", "-f", "-")
	s.there("-n", "proof", "create", "cm", "restored", "--from-literal=v=theirs")
	patch := map[string]any{"metadata": map[string]any{"managedFields": fields}}
	s.there("-n", "proof", "patch", "cm", "restored", "--type=merge", "-p", encode(s, patch))
	for _, name := range []string{"made", "copied", "restored"} {
		if !carries(s.managedFields(name), manager) {
			s.Errorf("an API server does not keep managed fields that %s brings along: %v", name, s.managedFields(name))
		}
		s.write(configMap("proof", name, "ours"))
		s.reports("core/configmaps/proof/"+name, "Conflict", "Exists")
		s.hasField("proof", "cm/"+name, ".data.v", "theirs")
	}
	s.unplace("proof")
	s.gone("proof", "cm/any")
	for _, name := range []string{"made", "copied", "restored"} {
		s.hasField("proof", "cm/"+name, ".data.v", "theirs")
	}
}

func encode(s *suite, v any) string {
	s.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		s.Fatal(err)
	}
	return string(b)
}

func (s *suite) managedFields(name string) []metav1.ManagedFieldsEntry {
	s.Helper()
	var o metav1.PartialObjectMetadata
	out := s.there("-n", "proof", "get", "cm", name, "-o", "json", "--show-managed-fields")
	if err := json.Unmarshal([]byte(out), &o); err != nil {
		s.Fatal(err)
	}
	return o.ManagedFields
}

func carries(fields []metav1.ManagedFieldsEntry, manager string) bool {
	for _, f := range fields {
		if f.Manager == manager && f.Operation == metav1.ManagedFieldsOperationApply {
			return true
		}
	}
	return false
}

// redefined: a CRD that gives way to another of its name, which the location refuses as a
// change, is created anew, though objects of the new one are desired.
func (s *suite) redefined() {
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.redefined.example}
spec:
  group: redefined.example
  scope: %s
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
	s.write(fmt.Sprintf(definition, "Namespaced"))
	s.write(fmt.Sprintf(`
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: redefined}
spec:
  onImmutable: Recreate
  locations: [{names: [%s]}]
  downsync:
  - {resources: [customresourcedefinitions], names: [gadgets.redefined.example]}
  - {apiGroup: redefined.example, resources: [gadgets]}
`, edge))
	s.reports("apiextensions.k8s.io/customresourcedefinitions/gadgets.redefined.example", "Applied", "")
	s.site.Agent.Stop()
	env.Kubectl(s, s.kubeconfig, "delete", "crd", "gadgets.redefined.example")
	s.write(fmt.Sprintf(definition, "Cluster"))
	s.eventually("there is a gadget in the space", func() error {
		_, err := env.Command{
			Binary: "kubectl", Kubeconfig: s.kubeconfig, Args: []string{"apply", "-f", "-"},
			Stdin: `{"apiVersion":"redefined.example/v1","kind":"Gadget","metadata":{"name":"a"}}`,
		}.Try(s)
		return err
	})
	s.site.Agent.Start()
	s.reports("apiextensions.k8s.io/customresourcedefinitions/gadgets.redefined.example", "Applied", "")
	s.reports("redefined.example/gadgets/a", "Applied", "")
	s.hasField("", "crd/gadgets.redefined.example", ".spec.scope", "Cluster")
	s.unplace("redefined")
	s.gone("", "crd/gadgets.redefined.example")
}
