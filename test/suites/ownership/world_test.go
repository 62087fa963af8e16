// Package ownership shows on a real cluster which objects and fields the agent owns: how policies
// treat objects, and that the agent leaves fields alone that the location sets.
package ownership

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/jsonpath"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

const (
	space = "shop"
	edge  = "edge"
	// quietFor is how long nothing may be written when nothing changes.
	quietFor = 5 * time.Second
)

// suite is a space, and a location with a real cluster. Tests use both through kubectl.
type suite struct {
	*testing.T
	w          *world.World
	site       *world.Site
	kubeconfig string // of the space
}

// subtest runs in a namespace of its own.
type subtest struct {
	name string
	run  func(*suite)
}

// lead runs subtests one after another at one cluster. Subtests mostly wait, so several clusters in
// parallel take no longer than one.
func lead(t *testing.T, subtests ...subtest) {
	t.Parallel()
	w := world.New(t)
	s := &suite{T: t, w: w, kubeconfig: w.AddSpace(space), site: w.Join(edge, nil)}
	env.Kubectl(t, w.Root, "patch", "location", edge, "--type=merge", "-p", `{"spec":{"prune":{"maxPercent":100}}}`)
	for _, test := range subtests {
		t.Run(test.name, func(t *testing.T) {
			own := *s
			own.T = t
			test.run(&own)
		})
	}
}

// TestOwnership checks which objects and fields the agent owns, and through which API version it
// reads them.
func TestOwnership(t *testing.T) {
	lead(t,
		subtest{"RunOnce", (*suite).runOnce},
		subtest{"Rollout", (*suite).rollout},
		subtest{"Ended", (*suite).ended},
		subtest{"Health", (*suite).health},
		subtest{"Diagnosed", (*suite).diagnosed},
		subtest{"Service", (*suite).service},
		subtest{"Released", (*suite).released},
		subtest{"Proof", (*suite).proof},
		subtest{"Surveyed", (*suite).surveyed},
		subtest{"Redefined", (*suite).redefined},
		subtest{"Versions", (*suite).versions},
		subtest{"Aggregated", (*suite).aggregated})
}

// TestLeaving checks which objects the agent removes, in which order, and which objects remain.
func TestLeaving(t *testing.T) {
	lead(t,
		subtest{"Leave", (*suite).leave},
		subtest{"Awaited", (*suite).awaited},
		subtest{"InUse", (*suite).inUse}) // the last one, since objects remain
}

// TestUsers checks that objects of other users keep their Namespace or CRD.
func TestUsers(t *testing.T) {
	lead(t, subtest{"Users", (*suite).users})
}

// TestPolicies checks fields that the location sets, and each policy of a Placement.
func TestPolicies(t *testing.T) {
	lead(t,
		subtest{"Filled", (*suite).filled},
		subtest{"CreateOnly", (*suite).createOnly},
		subtest{"Adopt", (*suite).adopt},
		subtest{"Recreate", (*suite).recreate},
		subtest{"Orphan", (*suite).orphan},
		subtest{"Drift", (*suite).drift})
}

// write applies YAML in the space.
func (s *suite) write(yaml string) {
	s.Helper()
	env.KubectlIn(s, s.kubeconfig, yaml, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

// namespace creates a namespace in the space and at the location.
func (s *suite) namespace(name string) {
	s.Helper()
	env.Kubectl(s, s.kubeconfig, "create", "namespace", name)
	env.Kubectl(s, s.site.Cluster.Kubeconfig, "create", "namespace", name)
}

// place creates a Placement for the objects of a namespace, with policies as YAML of its spec and of
// its downsync.
func (s *suite) place(namespace, spec, test string) {
	s.Helper()
	s.write(fmt.Sprintf(`
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: %s}
spec: {locations: [{names: [%s]}], downsync: [{namespaces: [%s]%s}]%s}
`, namespace, edge, namespace, test, spec))
}

func (s *suite) unplace(name string) {
	s.Helper()
	env.Kubectl(s, s.kubeconfig, "delete", "placement", name)
}

// there runs kubectl in the cluster of the location.
func (s *suite) there(args ...string) string {
	s.Helper()
	return strings.TrimSpace(env.Kubectl(s, s.site.Cluster.Kubeconfig, args...))
}

// field returns a field of an object at the location; empty if the object does not have it.
func (s *suite) field(namespace, object, path string) (string, error) {
	s.Helper()
	u, err := s.site.Find(s, namespace, object)
	if err != nil {
		return "", err
	}
	field := jsonpath.New(path).AllowMissingKeys(true)
	if err := field.Parse("{" + path + "}"); err != nil {
		s.Fatal(err)
	}
	var value strings.Builder
	err = field.Execute(&value, u.Object)
	return strings.TrimSpace(value.String()), err
}

// hasField waits until a field of an object at the location has a value.
func (s *suite) hasField(namespace, object, path, want string) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s has %s %q", object, path, want), func() error {
		got, err := s.field(namespace, object, path)
		if err == nil && got != want {
			err = fmt.Errorf("%s of %s is %q, want %q", path, object, got, want)
		}
		return err
	})
}

func (s *suite) eventually(what string, f func() error) {
	s.Helper()
	start := time.Now()
	env.Eventually(s, world.Soon, f)
	s.Logf("%s: after %s", what, time.Since(start).Round(time.Millisecond))
}

// gone waits until an object does not exist at the location.
func (s *suite) gone(namespace, object string) {
	s.Helper()
	s.eventually(object+" is gone", func() error {
		switch _, err := s.site.Find(s, namespace, object); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%s exists", object)
	})
}

// report is the answer of the hub to orrery status for an object at the location.
type report struct{ State, Reason, Message, Health, HealthNote string }

func (s *suite) report(object string) (report, error) {
	var answer struct {
		Objects []struct {
			Object string   `json:"object"`
			Places []report `json:"places"`
		} `json:"objects"`
	}
	client, err := rest.UnversionedRESTClientFor(world.Unversioned(s.w.Hub.PathConfig("")))
	if err != nil {
		return report{}, err
	}
	out, err := client.Get().AbsPath(route.Question(space).Path(route.Status)).Do(s.Context()).Raw()
	if err != nil {
		return report{}, err
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return report{}, err
	}
	for _, o := range answer.Objects {
		if o.Object == object && len(o.Places) == 1 {
			return o.Places[0], nil
		}
	}
	return report{}, fmt.Errorf("%s is not placed", object)
}

// reports waits until the hub reports an object with a state and a reason.
func (s *suite) reports(object, state, reason string) report {
	s.Helper()
	var got report
	s.eventually(fmt.Sprintf("%s is %s %s", object, state, reason), func() (err error) {
		if got, err = s.report(object); err == nil && (got.State != state || got.Reason != reason) {
			err = fmt.Errorf("it is %+v", got)
		}
		return err
	})
	return got
}

// states returns the number of objects in each state, from the status of the agent.
func (s *suite) states() (map[string]int, error) {
	status, err := agent.ReadStatus(s.site.Agent.Dir)
	if err == nil && status.Queued > 0 {
		err = fmt.Errorf("%d objects are queued", status.Queued)
	}
	states := map[string]int{}
	for state, n := range status.States {
		states[string(state)] = n
	}
	return states, err
}

// count waits until the agent reports that number of objects in a state.
func (s *suite) count(state string, want int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d objects are %s", want, state), func() error {
		got, err := s.states()
		if err == nil && got[state] != want {
			err = fmt.Errorf("the agent has %v", got)
		}
		return err
	})
}

// watch watches the report of a ConfigMap at the location in the background. It returns a function
// for Eventually that fails until the hub has reported a state. A watch misses no state, however
// short.
func (s *suite) watch(namespace, name, state string) (seen func() error) {
	s.Helper()
	all := world.Dynamic(s, s.w.Hub.PathConfig("views/reports/spaces/"+space+"/locations/"+edge)).Resource(world.ConfigMaps).Namespace(namespace)
	list, err := all.List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	w, err := all.Watch(s.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(w.Stop)
	var states []string // in order
	return func() error {
		for {
			select {
			case e, open := <-w.ResultChan():
				u, ok := e.Object.(*unstructured.Unstructured)
				if !open || !ok || e.Type == watch.Error {
					s.Fatalf("the watch has ended after the states %q: %+v", states, e.Object)
				}
				if u.GetName() == name {
					states = append(states, fmt.Sprint(e.Type, " ", u.GetLabels()["orrery.dev/state"]))
				}
				if u.GetName() == name && u.GetLabels()["orrery.dev/state"] == state {
					return nil
				}
				continue
			default:
			}
			return fmt.Errorf("%s was never %s, but %q", name, state, states)
		}
	}
}

// allApplied waits until the agent has applied all objects.
func (s *suite) allApplied() {
	s.Helper()
	s.eventually("all is applied", func() error {
		states, err := s.states()
		for state := range states {
			if state != "Applied" {
				err = errors.Join(err, fmt.Errorf("the agent has %v", states))
			}
		}
		return err
	})
}

// quiet checks that the agent writes nothing for a while, apart from the object that admission
// mutates.
func (s *suite) quiet(namespace string) {
	s.Helper()
	start := time.Now()
	env.Throughout(s, quietFor, func() error { return s.wrote(namespace, start) })
}

// wrote returns an error if the agent has written to a namespace since a time.
func (s *suite) wrote(namespace string, since time.Time) error {
	for _, e := range s.site.Cluster.Requests(s, env.Filter{User: env.AgentUser, Namespace: namespace, After: since, Writes: true}) {
		if e.Object.Name == "painted" {
			r, err := s.report("core/configmaps/filled/painted")
			if err == nil && r.Reason == "Mutated" {
				continue
			}
		}
		return fmt.Errorf("the agent writes: %s %s, answered with %d", e.Verb, e.RequestURI, e.Response.Code)
	}
	return nil
}
