package ownership

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/test/env"
)

// manager is the field manager of the location's agent; its name is marked
// on whatever the agent makes.
func (s *suite) manager() string {
	s.Helper()
	s.write(configMap("proof", "any", "one"))
	s.has("proof", "cm/any", ".data.v", "one")
	return "orrery/" + s.there("-n", "proof", "get", "cm", "any", "-o", `jsonpath={.metadata.labels.orrery\.dev/location}`)
}

// thereIn runs kubectl as somebody at the location, with YAML or JSON as input.
func (s *suite) thereIn(input string, args ...string) {
	s.Helper()
	env.KubectlIn(s, s.site.Cluster.Kubeconfig, input, args...)
}

// proof: what the agent made and could not record, since it was killed, is its own
// by the marks, and if somebody has taken those, by what the API server has noted.
// Neither marks nor managed fields can be brought along.
func (s *suite) proof() {
	s.namespace("proof")
	s.place("proof", "", "")
	manager := s.manager()

	// As an agent makes it, which dies, and as it is without its marks.
	s.eventually("it is made within a second", func() error {
		s.thereIn(configMap("proof", "made", "old"), "apply", "--server-side", "--field-manager", manager, "-f", "-")
		born := s.there("-n", "proof", "get", "cm", "made", "-o", "jsonpath={.metadata.creationTimestamp}")
		if wrote := s.managedFields("made")[0].Time.UTC().Format(time.RFC3339); wrote != born {
			s.there("-n", "proof", "delete", "cm", "made")
			return fmt.Errorf("it was made at %s and at %s", wrote, born)
		}
		return nil
	})
	uid := s.there("-n", "proof", "get", "cm", "made", "-o", "jsonpath={.metadata.uid}")
	s.write(configMap("proof", "made", "new"))
	s.reports("core/configmaps/proof/made", "Applied", "")
	s.has("proof", "cm/made", ".data.v", "new")
	s.has("proof", "cm/made", `.metadata.labels.orrery\.dev/space`, space)
	s.has("proof", "cm/made", ".metadata.uid", uid)

	// A copy with all managed fields, and what a backup restores: made, then given
	// the fields of what it was.
	fields := s.managedFields("any")
	<-time.After(time.Until(fields[0].Time.Add(2 * time.Second))) // no backup is restored when it is made
	copied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"v": "theirs"},
		"metadata": map[string]any{"name": "copied", "namespace": "proof"},
	}}
	copied.SetManagedFields(fields)
	s.thereIn(encode(s, copied.Object), "create", "-f", "-")
	s.there("-n", "proof", "create", "cm", "restored", "--from-literal=v=theirs")
	patch := map[string]any{"metadata": map[string]any{"managedFields": fields}}
	s.there("-n", "proof", "patch", "cm", "restored", "--type=merge", "-p", encode(s, patch))
	for _, name := range []string{"copied", "restored"} {
		if !carries(s.managedFields(name), manager) {
			s.Errorf("an API server does not keep managed fields that %s brings along: %v", name, s.managedFields(name))
		}
		s.write(configMap("proof", name, "ours"))
		s.reports("core/configmaps/proof/"+name, "Conflict", "Exists")
		s.has("proof", "cm/"+name, ".data.v", "theirs")
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

// swept: what the agent made and could not report before it lost its store is found
// and removed when the hub has dropped it, also if nothing else of its kind is desired.
func (s *suite) swept() {
	label := strings.TrimPrefix(s.manager(), "orrery/")
	s.thereIn(fmt.Sprintf(`
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: forgotten
  namespace: proof
  labels: {orrery.dev/location: %s, orrery.dev/space: %s}
  annotations:
    orrery.dev/source-kind: PodDisruptionBudget
    orrery.dev/source-namespace: proof
    orrery.dev/source-name: forgotten
    orrery.dev/source-uid: 6d1f6b5c-0000-0000-0000-000000000000
spec: {minAvailable: 1, selector: {matchLabels: {app: any}}}
`, label, space), "apply", "--server-side", "--field-manager", "orrery/"+label, "-f", "-")
	s.stop()
	s.site.Agent.Start()
	s.gone("proof", "pdb/forgotten")
	s.unplace("proof")
	s.gone("proof", "cm/any")
	for _, name := range []string{"copied", "restored"} {
		s.has("proof", "cm/"+name, ".data.v", "theirs")
	}
}

// redefined: a definition that gives way to another of its name, which the location
// refuses as a change, is made anew, though objects of the new one are desired.
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
	s.has("", "crd/gadgets.redefined.example", ".spec.scope", "Cluster")
	s.unplace("redefined")
	s.gone("", "crd/gadgets.redefined.example")
}
