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

// user is an object of another user at the location, in a Namespace that is no longer assigned or of
// a CRD that is not.
type user struct{ namespace, manifest, object string }

// users checks that an object of another user keeps its Namespace, whatever its owner references,
// and that an object that a controller created for an object of the agent does not. An object that
// only has the ownership metadata of the agent keeps its CRD.
func (s *suite) users() {
	s.thereIn(twoVersions, "apply", "-f", "-")
	s.there("create", "clusterrole", "owner", "--verb=get", "--resource=pods")
	uid := s.there("get", "clusterrole", "owner", "-o", "jsonpath={.metadata.uid}")
	owned := fmt.Sprintf("ownerReferences: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: owner, uid: %s, controller: true}]", uid)
	const copied = `labels: {orrery.dev/location: %s, orrery.dev/space: shop},
  annotations: {orrery.dev/source-kind: Used, orrery.dev/source-namespace: default, orrery.dev/source-name: another, orrery.dev/source-uid: u}`
	all := []user{
		{namespace: "owned", manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs, namespace: owned, " + owned + "}\n", object: "configmaps"},
		{namespace: "older", manifest: "apiVersion: users.example/v1beta1\nkind: Old\nmetadata: {name: theirs, namespace: older}\n", object: "olds.users.example"},
		{namespace: "token", manifest: "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\n" +
			"metadata: {name: theirs, namespace: token, annotations: {kubernetes.io/service-account.name: default}}\n", object: "secrets"},
		{namespace: "addressed", manifest: "apiVersion: v1\nkind: Endpoints\nmetadata: {name: theirs, namespace: addressed}\nsubsets: []\n", object: "endpoints"},
	}
	var names []string
	for _, u := range all {
		names = append(names, u.namespace)
		s.write("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + u.namespace + "}\n")
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
	s.hasField("emptied", "deploy/web", ".status.readyReplicas", "1")
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
	all = append(all, user{namespace: "copied", object: "copieds.example.org"})
	for _, u := range all {
		namespace := u.namespace
		if u.namespace == "copied" {
			namespace = "default"
		}
		s.hasField(namespace, u.object+"/theirs", ".metadata.name", "theirs")
		s.there("-n", namespace, "delete", u.object, "theirs")
	}
	// The agent checks once a minute whether an object is still in use.
	env.Eventually(s, 2*env.Soon, func() error {
		for _, u := range all[:len(all)-1] {
			out, err := env.TryKubectl(s, s.site.Cluster.Kubeconfig, "get", "namespace", u.namespace, "--ignore-not-found", "-o", "name")
			if err != nil || out != "" {
				return fmt.Errorf("namespace %s exists: %w", u.namespace, err)
			}
		}
		return nil
	})
	s.gone("", "crd/copieds.example.org")
	s.there("delete", "crd", "olds.users.example", "news.users.example")
	s.there("delete", "clusterrole", "owner")
}
