package ownership

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"orrery.dev/orrery/test/support/env"
)

const (
	// releasedManager is the manager, at the location, of released fields that no user has changed.
	releasedManager = "orrery-released"
	replicas        = ".spec.replicas"
	containers      = ".spec.template.spec.containers"
	cpu             = containers + "[0].resources.requests.cpu"
)

// sized returns the Deployment web, with values that a location may want to set for itself.
func sized(image string, replicas int, cpu string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: loose}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: %q, resources: {requests: {cpu: %s}}}]}
`, replicas, image, cpu)
}

// releases creates a Customizer that releases a field of all Deployments of the namespace.
func (s *suite) releases(name, path string) {
	s.Helper()
	s.write(fmt.Sprintf(`
apiVersion: orrery.dev/v1alpha1
kind: Customizer
metadata: {name: %s}
spec:
  match: [{apiGroup: apps, resources: [deployments], namespaces: [loose]}]
  rules: [{path: '%s', release: true}]
`, name, path))
}

// owners returns the managers of a field of a Deployment at the location. The field is a path in the
// format of managedFields.
func (s *suite) owners(name string, field ...string) []string {
	s.Helper()
	var object struct {
		Metadata struct {
			ManagedFields []struct {
				Manager  string         `json:"manager"`
				FieldsV1 map[string]any `json:"fieldsV1"`
			} `json:"managedFields"`
		} `json:"metadata"`
	}
	out := s.there("-n", "loose", "get", "deploy", name, "-o", "json", "--show-managed-fields")
	if err := json.Unmarshal([]byte(out), &object); err != nil {
		s.Fatal(err)
	}
	var owners []string
	for _, m := range object.Metadata.ManagedFields {
		fields, isOwner := m.FieldsV1, true
		for _, f := range field {
			var below any
			if below, isOwner = fields[f]; !isOwner {
				break
			}
			fields, _ = below.(map[string]any)
		}
		if isOwner {
			owners = append(owners, m.Manager)
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

func (s *suite) owned(manager, name string, field ...string) {
	s.Helper()
	if got := s.owners(name, field...); !slices.Equal(got, []string{manager}) {
		s.Errorf("%v of %s is owned by %v, want %s", field, name, got, manager)
	}
}

// ours is the field manager of what the agent enforces.
func (s *suite) ours() string {
	s.Helper()
	label := s.there("-n", "loose", "get", "deploy", "web", "-o", `jsonpath={.metadata.labels.orrery\.dev/location}`)
	return "orrery/" + label
}

// released: a value that a Customizer releases is created as the space says, and then
// stays what others make of it, whatever happens to agent and space, until the object is
// created anew or the Customizer is deleted.
func (s *suite) released() {
	const web = "apps/deployments/loose/web"
	s.namespace("loose")
	s.releases("replicas", "$.spec.replicas")
	s.write(sized("x:one", 2, "100m"))
	s.place("loose", "", "")
	s.reports(web, "Applied", "")
	s.hasField("loose", "deploy/web", replicas, "2")
	s.owned(releasedManager, "web", "f:spec", "f:replicas")
	if out := env.Orrery(s, s.kubeconfig, "why", "deployment/web", "-n", "loose", "--location", edge); !strings.Contains(out, "Customizer replicas") ||
		!strings.Contains(out, "it leaves to others the values at $.spec.replicas") {
		s.Errorf("orrery why says %s", out)
	}

	// Below its least, a HorizontalPodAutoscaler needs no metrics to scale up.
	s.there("-n", "loose", "autoscale", "deploy", "web", "--min=5", "--max=7")
	s.hasField("loose", "deploy/web", replicas, "5")
	s.scaled(web)
	s.there("-n", "loose", "delete", "hpa", "web")
	s.remade(web)
	s.resized(web)
	s.returned(web)
	s.unplace("loose")
	s.gone("loose", "deploy/web")
}

// scaled: five replicas stay through edits in the space, of other fields and of
// replicas, and through restarts of the agent with its store and without.
func (s *suite) scaled(web string) {
	s.Helper()
	s.write(sized("x:two", 2, "100m"))
	s.hasField("loose", "deploy/web", containers+"[0].image", "x:two")
	s.reports(web, "Applied", "")
	s.hasField("loose", "deploy/web", replicas, "5")
	s.write(sized("x:two", 3, "100m"))
	s.reports(web, "Applied", "")
	s.hasField("loose", "deploy/web", replicas, "5")
	s.site.Agent.Stop()
	s.write(sized("x:three", 3, "100m"))
	s.site.Agent.Start()
	s.hasField("loose", "deploy/web", containers+"[0].image", "x:three")
	s.loseStore()
	s.write(sized("x:four", 3, "100m"))
	s.hasField("loose", "deploy/web", containers+"[0].image", "x:four")
	s.reports(web, "Applied", "")
	s.hasField("loose", "deploy/web", replicas, "5")
	s.owned("kube-controller-manager", "web", "f:spec", "f:replicas")
	s.owned(s.ours(), "web", "f:spec", "f:template", "f:spec", "f:containers", `k:{"name":"c"}`, "f:image")
	s.quiet("loose")
}

// remade: an object that is created anew has the values of the space.
func (s *suite) remade(web string) {
	s.Helper()
	uid, err := s.field("loose", "deploy/web", ".metadata.uid")
	if err != nil {
		s.Fatal(err)
	}
	s.there("-n", "loose", "delete", "deploy", "web")
	s.eventually("the Deployment is made anew", func() error {
		now, err := s.field("loose", "deploy/web", ".metadata.uid")
		if err == nil && now == uid {
			err = fmt.Errorf("it is still %s", uid)
		}
		return err
	})
	s.hasField("loose", "deploy/web", replicas, "3")
	s.reports(web, "Applied", "")
	s.eventually("replicas are released again", func() error {
		if got := s.owners("web", "f:spec", "f:replicas"); !slices.Equal(got, []string{releasedManager}) {
			return fmt.Errorf("owned by %v", got)
		}
		return nil
	})
}

// resized: a Customizer for an object that exists changes no value; what it releases
// inside a list is left alone from then on.
func (s *suite) resized(web string) {
	s.Helper()
	resources := []string{"f:spec", "f:template", "f:spec", "f:containers", `k:{"name":"c"}`, "f:resources", "f:requests", "f:cpu"}
	spec := func() string {
		s.Helper()
		// The generation of a Deployment counts changes of annotations, too.
		return s.there("-n", "loose", "get", "deploy", "web", "-o", "jsonpath={.spec}")
	}
	before := spec()
	s.releases("resources", "$.spec.template.spec.containers[*].resources")
	s.eventually("resources are released", func() error {
		if got := s.owners("web", resources...); !slices.Equal(got, []string{releasedManager}) {
			return fmt.Errorf("owned by %v", got)
		}
		return nil
	})
	if after := spec(); after != before {
		s.Errorf("a Customizer changed what was there: %s, and now %s", before, after)
	}
	s.there("-n", "loose", "set", "resources", "deploy/web", "-c", "c", "--requests=cpu=250m")
	s.write(sized("x:five", 3, "400m"))
	s.hasField("loose", "deploy/web", containers+"[0].image", "x:five")
	s.reports(web, "Applied", "")
	s.hasField("loose", "deploy/web", cpu, "250m")
}

// returned: without the Customizers the values of the space are applied again.
func (s *suite) returned(web string) {
	s.Helper()
	s.there("-n", "loose", "scale", "deploy", "web", "--replicas=6")
	env.Kubectl(s, s.kubeconfig, "delete", "customizer", "replicas")
	s.hasField("loose", "deploy/web", replicas, "3")
	s.reports(web, "Applied", "")
	s.hasField("loose", "deploy/web", cpu, "250m")
	env.Kubectl(s, s.kubeconfig, "delete", "customizer", "resources")
	s.hasField("loose", "deploy/web", cpu, "400m")
	s.reports(web, "Applied", "")
	s.there("-n", "loose", "scale", "deploy", "web", "--replicas=7")
	s.hasField("loose", "deploy/web", replicas, "3")
}
