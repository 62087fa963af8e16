// Package rollout has objects for whose rollout clients wait, and plays the controllers of a site that
// call them done.
package rollout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// Everywhere defines a kind whose statuses have no observedGeneration, and places at the location edge
// all objects that have the label for=edge.
const Everywhere = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.example.org, labels: {for: edge}}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: gizmos, singular: gizmo, kind: Gizmo, listKind: GizmoList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, x-kubernetes-preserve-unknown-fields: true},
      status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: edge}
spec:
  locations: [{names: [edge]}]
  downsync: [{labelSelectors: [{matchLabels: {for: edge}}], returnStatus: Singleton}]
`

// Objects returns YAML of a Deployment and a Gizmo in the namespace default, with the label for=edge.
// The Deployment has an observedGeneration in its status, the Gizmo has none.
func Objects(name, version string) string {
	return strings.NewReplacer("NAME", name, "VERSION", version).Replace(objects)
}

const objects = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: default, labels: {for: edge}}
spec:
  replicas: 1
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: web, image: "example.org/web:VERSION"}]}
---
apiVersion: example.org/v1
kind: Gizmo
metadata: {name: NAME, namespace: default, labels: {for: edge}}
spec: {version: "VERSION"}
`

// Statuses of objects that are done. GENERATION is replaced by the generation at the site.
const (
	deploymentDone = `{"status":{"observedGeneration":GENERATION,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,
		"conditions":[{"type":"Available","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z"},
		{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z"}]}}`
	gizmoDone = `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
)

// Gizmos is the resource of the kind that Everywhere defines.
var Gizmos = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "gizmos"}

// Finish waits until a site has a version of the objects with a name, and sets their statuses as
// controllers do once all is done.
func Finish(t env.T, w *world.World, site *world.Site, name, version string) {
	t.Helper()
	for resource, done := range map[schema.GroupVersionResource]string{world.Deployments: deploymentDone, Gizmos: gizmoDone} {
		target := site.Client.Resource(resource).Namespace(metav1.NamespaceDefault)
		w.Eventually(fmt.Sprintf("%s %s has version %s and is done", resource.Resource, name, version), func() error {
			o, err := target.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if spec := fmt.Sprint(o.Object["spec"]); !strings.Contains(spec, "web:"+version) && !strings.Contains(spec, "version:"+version) {
				return errors.New(spec)
			}
			status := strings.ReplaceAll(done, "GENERATION", strconv.FormatInt(o.GetGeneration(), 10))
			_, err = target.Patch(t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
			return err
		})
	}
}
