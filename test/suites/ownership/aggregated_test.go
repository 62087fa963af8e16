package ownership

import (
	"fmt"
	"net/url"
	"strings"

	"orrery.dev/orrery/test/support/env"
)

const oddDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: odds.odd.example}
spec:
  group: odd.example
  scope: Cluster
  names: {plural: odds, singular: odd, kind: Odd}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

const oddService = `
apiVersion: v1
kind: Service
metadata: {name: odd, namespace: default}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %[1]s}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.odd.example}
spec: {group: odd.example, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: odd, namespace: default, port: %[1]s}}
`

// aggregated checks that the agent observes the objects of an aggregated API server whose resource
// versions are not numbers and whose lists are too large for one response. The agent reports an
// object that it cannot observe, and continues with all others.
func (s *suite) aggregated() {
	odd, server := startOddServer(s)
	address, err := url.Parse(server.URL)
	if err != nil {
		s.Fatal(err)
	}
	s.thereIn(fmt.Sprintf(oddService, address.Port()), "apply", "-f", "-")
	s.there("wait", "apiservice/v1.odd.example", "--for=condition=Available", "--timeout="+env.Soon.String())
	s.write(oddDefinition)
	for _, name := range []string{"a", "b", "c"} {
		s.eventually(name+" is in the space", func() error {
			_, err := env.Command{
				Binary: "kubectl", Kubeconfig: s.kubeconfig, Args: []string{"apply", "-f", "-"},
				Stdin: fmt.Sprintf("apiVersion: odd.example/v1\nkind: Odd\nmetadata: {name: %s}\nspec: {v: ours}\n", name),
			}.Try(s)
			return err
		})
	}
	s.write(fmt.Sprintf(`
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: odd}
spec: {locations: [{names: [%s]}], downsync: [{apiGroup: odd.example, resources: [odds]}]}
`, edge))
	isDesired := func(name string) {
		s.Helper()
		s.eventually(name+" is as desired", func() error {
			if got := odd.value(name); got != "ours" {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
		s.reports("odd.example/odds/"+name, "Applied", "")
	}
	for _, name := range []string{"a", "b", "c"} {
		isDesired(name)
	}
	odd.tamper("a", "theirs")
	isDesired("a")
	env.Kubectl(s, s.site.Cluster.Kubeconfig, "get", "--raw", "/apis/odd.example/v1/odds/b")

	// More than can be read at once, in smaller pages.
	s.site.Agent.Stop()
	odd.pad(30 << 20)
	odd.tamper("b", "theirs")
	s.site.Agent.Start()
	isDesired("b")
	isDesired("c")

	// A single object is too large. The others are not concerned.
	s.namespace("beside")
	s.write(configMap("beside", "a", "one"))
	s.place("beside", "", "")
	s.hasField("beside", "cm/a", ".data.v", "one")
	s.site.Agent.Stop()
	odd.pad(70 << 20)
	s.site.Agent.Start()
	if got := s.reports("odd.example/odds/a", "Applied", "Unobserved"); !strings.Contains(got.Message, "64 MiB") {
		s.Errorf("it says %q", got.Message)
	}
	s.there("-n", "beside", "patch", "cm", "a", "--type=merge", "-p", `{"data":{"v":"theirs"}}`)
	s.hasField("beside", "cm/a", ".data.v", "one")
	s.write("apiVersion: odd.example/v1\nkind: Odd\nmetadata: {name: a}\nspec: {v: ours, more: x}\n")
	s.reports("odd.example/odds/a", "Applied", "Unobserved")

	odd.pad(0)
	s.unplace("beside")
	s.unplace("odd")
	s.gone("beside", "cm/a")
	s.eventually("nothing odd is left", func() error {
		for _, name := range []string{"a", "b", "c"} {
			if odd.value(name) != "" {
				return fmt.Errorf("%s is there", name)
			}
		}
		return nil
	})
	s.there("delete", "apiservice", "v1.odd.example")
	s.there("-n", "default", "delete", "service", "odd")
	env.Kubectl(s, s.kubeconfig, "delete", "crd", "odds.odd.example")
}
