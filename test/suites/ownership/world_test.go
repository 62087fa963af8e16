// Package ownership shows on a real cluster who owns what: how policies treat objects,
// and that what a location fills in is left to it.
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

// suite is a space, and a location with a real cluster, both by kubectl.
type suite struct {
	*testing.T
	w          *world.World
	site       *world.Site
	kubeconfig string // of the space
}

// part is run in a namespace of its own.
type part struct {
	name string
	run  func(*suite)
}

// lead runs parts one after another, at one cluster. A part mostly waits, so several
// clusters at once take the time of one.
func lead(t *testing.T, parts ...part) {
	t.Parallel()
	w := world.New(t)
	s := &suite{T: t, w: w, kubeconfig: w.AddSpace(space), site: w.Join(edge, nil)}
	env.Kubectl(t, w.Root, "patch", "location", edge, "--type=merge", "-p", `{"spec":{"prune":{"maxPercent":100}}}`)
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			of := *s
			of.T = t
			part.run(&of)
		})
	}
}

// TestOwnership: which objects and values are the agent's, and through which version it
// sees them.
func TestOwnership(t *testing.T) {
	lead(t,
		part{"RunOnce", (*suite).runOnce},
		part{"Rollout", (*suite).rollout},
		part{"Ended", (*suite).ended},
		part{"Health", (*suite).health},
		part{"Service", (*suite).service},
		part{"Released", (*suite).released},
		part{"Proof", (*suite).proof},
		part{"Surveyed", (*suite).surveyed},
		part{"Redefined", (*suite).redefined},
		part{"Versions", (*suite).versions},
		part{"Aggregated", (*suite).aggregated})
}

// TestLeaving: what is removed, in which order, and what stays.
func TestLeaving(t *testing.T) {
	lead(t,
		part{"Leave", (*suite).leave},
		part{"Awaited", (*suite).awaited},
		part{"InUse", (*suite).inUse}) // the last: it leaves something behind
}

// TestUsers: what others have in a Namespace or CRD keeps it.
func TestUsers(t *testing.T) {
	lead(t, part{"Users", (*suite).users})
}

// TestPolicies: what the location fills in, and each policy of a Placement.
func TestPolicies(t *testing.T) {
	lead(t,
		part{"Filled", (*suite).filled},
		part{"CreateOnly", (*suite).createOnly},
		part{"Adopt", (*suite).adopt},
		part{"Recreate", (*suite).recreate},
		part{"Orphan", (*suite).orphan},
		part{"Drift", (*suite).drift})
}

// write applies YAML in the space.
func (s *suite) write(yaml string) {
	s.Helper()
	env.KubectlIn(s, s.kubeconfig, yaml, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

// namespace makes a namespace in the space and at the location.
func (s *suite) namespace(name string) {
	s.Helper()
	env.Kubectl(s, s.kubeconfig, "create", "namespace", name)
	env.Kubectl(s, s.site.Cluster.Kubeconfig, "create", "namespace", name)
}

// place places a namespace's objects, with policies as YAML lines of the spec and
// of the object test.
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

// there runs kubectl as somebody at the location.
func (s *suite) there(args ...string) string {
	s.Helper()
	return strings.TrimSpace(env.Kubectl(s, s.site.Cluster.Kubeconfig, args...))
}

// field reads a field at the location; "" if there is none.
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

// has waits until a field at the location has a value.
func (s *suite) has(namespace, object, path, want string) {
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

// gone waits until an object is not at the location.
func (s *suite) gone(namespace, object string) {
	s.Helper()
	s.eventually(object+" is gone", func() error {
		switch _, err := s.site.Find(s, namespace, object); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%s is there", object)
	})
}

// report is what the hub answers to orrery status about an object at the location.
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

// reports waits until an object is reported in a state for a reason.
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

// states is how many objects are in each state, as the agent says.
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

// count waits until the agent says that so many objects are in a state.
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

// watch follows what the hub shows of a ConfigMap at the location, while other things are done, and
// returns a function for Eventually that fails until the hub has shown a state. A watch misses no state,
// however short.
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

// settled waits until the agent has nothing left to do.
func (s *suite) settled() {
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

// quiet checks that the agent writes nothing for a while, apart from what admission
// changes.
func (s *suite) quiet(namespace string) {
	s.Helper()
	start := time.Now()
	env.Throughout(s, quietFor, func() error { return s.wrote(namespace, start) })
}

// wrote says what the agent has written in a namespace since a time.
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
