package clients

import (
	"testing"

	"orrery.dev/orrery/test/support/env"
)

// soon is how long what a test waits for may take on a busy machine. A client that
// has met an error comes back after up to a minute.
const soon = env.Soon

// campaigns is the definition of a kind with a status, as code generators write it.
const campaigns = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: campaigns.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {kind: Campaign, listKind: CampaignList, plural: campaigns, singular: campaign}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    selectableFields: [{jsonPath: .spec.product}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [product]
            properties:
              product: {type: string}
              discount: {type: integer, default: 10, maximum: 90}
          status:
            type: object
            properties:
              page: {type: string}
              observedGeneration: {type: integer}
`

// apply applies YAML with kubectl, server-side.
func (s *space) apply(t *testing.T, yaml string) {
	t.Helper()
	env.KubectlIn(t, s.kubeconfig, yaml, "apply", "--server-side", "-f", "-")
}
