package env

import "strings"

// MutatingPolicy is the manifest of an admission policy of a real cluster, which
// puts a colour of its own, red, in the place of the one in ConfigMaps labelled
// NAME=true, and a key "more" beside it.
func MutatingPolicy(name string) string { return strings.ReplaceAll(mutatingPolicy, "NAME", name) }

const mutatingPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    objectSelector: {matchLabels: {NAME: "true"}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{data: {"colour": "red", "more": "yes"}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME}
`
