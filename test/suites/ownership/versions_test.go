package ownership

import (
	"fmt"
	"strings"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// phased is a CRD with the given versions served, of which the last is stored.
func phased(served ...string) string {
	const versions = "v1beta1 v1"
	var all []string
	for v := range strings.FieldsSeq(versions) {
		is := strings.Contains(" "+strings.Join(served, " ")+" ", " "+v+" ")
		all = append(all, fmt.Sprintf("{name: %s, served: %v, storage: %v, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}",
			v, is, v == served[len(served)-1]))
	}
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: phaseds.versions.example}
spec:
  group: versions.example
  scope: Namespaced
  names: {plural: phaseds, singular: phased, kind: Phased}
  versions: [%s]
`, strings.Join(all, ", "))
}

func phasedObject(name, version, value string) string {
	return fmt.Sprintf("apiVersion: versions.example/%s\nkind: Phased\nmetadata: {name: %s, namespace: phased}\nspec: {v: %s}\n", version, name, value)
}

// phase has the location serve versions.
func (s *suite) phase(served ...string) {
	s.Helper()
	s.thereIn(phased(served...), "apply", "--server-side", "--force-conflicts", "-f", "-")
	s.eventually(fmt.Sprintf("%v are served", served), func() error {
		for _, v := range []string{"v1beta1", "v1"} {
			_, err := env.TryKubectl(s, s.site.Cluster.Kubeconfig, "get", "--raw", "/apis/versions.example/"+v+"/namespaces/phased/phaseds")
			is := strings.Contains(strings.Join(served, " ")+" ", v+" ")
			if is != (err == nil) {
				return fmt.Errorf("%s is served: %v, not %v", v, err == nil, is)
			}
		}
		return nil
	})
}

// versions: what was applied in a version that the location no longer serves is found,
// followed and removed through one that it serves, whatever becomes of the agent and its
// store meanwhile; it is applied again once the version is back, or the object in the
// space is written in another one.
func (s *suite) versions() {
	s.namespace("phased")
	s.write(phased("v1", "v1beta1")) // the hub sends objects in the storage version
	s.phase("v1beta1")
	names := []string{"kept", "changed", "deleted", "dropped", "lost", "unseen"}
	for _, name := range names {
		s.eventually(name+" is in the space", func() error {
			_, err := env.Command{
				Binary: "kubectl", Kubeconfig: s.kubeconfig, Args: []string{"apply", "-f", "-"}, Stdin: phasedObject(name, "v1beta1", "one"),
			}.Try(s)
			return err
		})
	}
	s.place("phased", "", "")
	object := func(name string) string { return "versions.example/phaseds/phased/" + name }
	for _, name := range names {
		s.reports(object(name), "Applied", "")
	}
	uid := s.there("-n", "phased", "get", "phaseds.v1beta1.versions.example", "kept", "-o", "jsonpath={.metadata.uid}")

	// It ends while the agent runs.
	s.phase("v1")
	there := "phaseds.v1.versions.example/"
	change := func(name string) {
		s.there("-n", "phased", "patch", there+name, "--type=merge", "-p", `{"spec":{"v":"theirs"}}`)
	}
	s.eventually("a change is seen", func() error {
		change("changed")
		got, err := s.report(object("changed"))
		if err == nil && (got.State != "Unsupported" || got.Reason != "NoSuchVersion" || !strings.Contains(got.Message, "v1beta1")) {
			err = fmt.Errorf("it is %+v", got)
		}
		return err
	})
	s.there("-n", "phased", "delete", there+"deleted")
	s.reports(object("deleted"), "Unsupported", "NoSuchVersion")
	s.reports(object("kept"), "Applied", "")
	s.hasField("phased", there+"kept", ".metadata.uid", uid)
	start := time.Now()
	env.Kubectl(s, s.kubeconfig, "-n", "phased", "delete", "phased", "dropped")
	s.gone("phased", there+"dropped")
	s.Logf("removed after %s", time.Since(start))

	// The store is lost; objects that other users wrote have no managed fields of the agent.
	change("lost")
	s.stop()
	change("unseen")
	env.Kubectl(s, s.kubeconfig, "-n", "phased", "delete", "phased", "unseen")
	s.site.Agent.Start()
	s.gone("phased", there+"unseen")
	s.reports(object("lost"), "Unsupported", "NoSuchVersion")
	s.hasField("phased", there+"lost", ".spec.v", "theirs")
	s.site.Agent.Kill()
	s.site.Agent.Start()
	env.Kubectl(s, s.kubeconfig, "-n", "phased", "delete", "phased", "lost")
	s.gone("phased", there+"lost")

	// Another version in the space, and the old one at the location again.
	s.write(phased("v1beta1", "v1"))
	s.write(phasedObject("changed", "v1", "two"))
	s.reports(object("changed"), "Applied", "")
	s.hasField("phased", there+"changed", ".spec.v", "two")
	s.phase("v1beta1", "v1")
	s.eventually("all is applied", func() error {
		for _, name := range []string{"kept", "changed", "deleted"} {
			got, err := s.report(object(name))
			if err != nil || got.State != "Applied" {
				return fmt.Errorf("%s is %+v: %w", name, got, err)
			}
		}
		return nil
	})
	s.hasField("phased", there+"kept", ".metadata.uid", uid)
	s.quiet("phased")
	s.unplace("phased")
	for _, name := range []string{"kept", "changed", "deleted"} {
		s.gone("phased", there+name)
	}
	env.Kubectl(s, s.kubeconfig, "delete", "crd", "phaseds.versions.example")
}
