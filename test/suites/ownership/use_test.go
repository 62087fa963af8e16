package ownership

import (
	"fmt"
	"strings"

	"orrery.dev/orrery/test/support/env"
)

// twoVersions are two CRDs of a group: one is served in v1, which clients prefer, the
// other only in v1beta1.
const twoVersions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: olds.users.example}
spec:
  group: users.example
  scope: Namespaced
  names: {plural: olds, singular: old, kind: Old}
  versions: [{name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: news.users.example}
spec:
  group: users.example
  scope: Namespaced
  names: {plural: news, singular: new, kind: New}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// user is something that somebody has at the location, in what is no longer assigned.
type user struct{ of, manifest, object string }

// users: whatever somebody has in a Namespace keeps it, whoever owns that; what a
// controller created for an object of the agent in there does not. A CRD stays for what
// only looks like the agent's.
func (s *suite) users() {
	s.thereIn(twoVersions, "apply", "-f", "-")
	s.there("create", "clusterrole", "owner", "--verb=get", "--resource=pods")
	uid := s.there("get", "clusterrole", "owner", "-o", "jsonpath={.metadata.uid}")
	owned := fmt.Sprintf("ownerReferences: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: owner, uid: %s, controller: true}]", uid)
	const copied = `labels: {orrery.dev/location: %s, orrery.dev/space: shop},
  annotations: {orrery.dev/source-kind: Used, orrery.dev/source-namespace: default, orrery.dev/source-name: another, orrery.dev/source-uid: u}`
	all := []user{
		{of: "owned", manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs, namespace: owned, " + owned + "}\n", object: "configmaps"},
		{of: "older", manifest: "apiVersion: users.example/v1beta1\nkind: Old\nmetadata: {name: theirs, namespace: older}\n", object: "olds.users.example"},
		{of: "token", manifest: "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\n" +
			"metadata: {name: theirs, namespace: token, annotations: {kubernetes.io/service-account.name: default}}\n", object: "secrets"},
		{of: "addressed", manifest: "apiVersion: v1\nkind: Endpoints\nmetadata: {name: theirs, namespace: addressed}\nsubsets: []\n", object: "endpoints"},
	}
	var names []string
	for _, u := range all {
		names = append(names, u.of)
		s.write("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + u.of + "}\n")
	}
	names = append(names, "emptied")
	s.write("apiVersion: v1\nkind: Namespace\nmetadata: {name: emptied}\n---" +
		strings.ReplaceAll(deployment("web", "one", "x"), "namespace: fixed", "namespace: emptied") + "---" +
		fmt.Sprintf(definition, "copied", "copied", "copied", "Copied"))
	s.write(fmt.Sprintf(`
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: users}
spec:
  locations: [{names: [%s]}]
  downsync:
  - {resources: [namespaces], names: [%s]}
  - {namespaces: [emptied]}
  - {resources: [customresourcedefinitions], names: [copieds.example.org]}
`, edge, strings.Join(names, ", ")))
	for _, name := range names {
		s.reports("core/namespaces/"+name, "Applied", "")
	}
	s.has("emptied", "deploy/web", ".status.readyReplicas", "1")
	s.eventually("there is a copy", func() error {
		location, err := env.TryKubectl(s, s.site.Cluster.Kubeconfig, "get", "namespace", "owned", "-o", `jsonpath={.metadata.labels.orrery\.dev/location}`)
		if err != nil {
			return err
		}
		_, err = env.Command{
			Binary: "kubectl", Kubeconfig: s.site.Cluster.Kubeconfig, Args: []string{"apply", "-f", "-"},
			Stdin: "apiVersion: example.org/v1\nkind: Copied\nmetadata: {name: theirs, namespace: default, " + fmt.Sprintf(copied, location) + "}\n",
		}.Try(s)
		return err
	})
	for _, u := range all {
		s.thereIn(u.manifest, "apply", "-f", "-")
	}
	s.unplace("users")
	s.count("Orphaned", len(all)+1)
	s.gone("", "namespace/emptied")
	all = append(all, user{of: "copied", object: "copieds.example.org"})
	for _, u := range all {
		namespace := u.of
		if u.of == "copied" {
			namespace = "default"
		}
		s.has(namespace, u.object+"/theirs", ".metadata.name", "theirs")
		s.there("-n", namespace, "delete", u.object, "theirs")
	}
	// What is in use is looked at once a minute.
	env.Eventually(s, 2*env.Soon, func() error {
		for _, u := range all[:len(all)-1] {
			out, err := env.TryKubectl(s, s.site.Cluster.Kubeconfig, "get", "namespace", u.of, "--ignore-not-found", "-o", "name")
			if err != nil || out != "" {
				return fmt.Errorf("namespace %s is there: %w", u.of, err)
			}
		}
		return nil
	})
	s.gone("", "crd/copieds.example.org")
	s.there("delete", "crd", "olds.users.example", "news.users.example")
	s.there("delete", "clusterrole", "owner")
}
