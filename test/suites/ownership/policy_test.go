package ownership

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"orrery.dev/orrery/test/support/env"
)

func configMap(namespace, name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {v: %s}\n", name, namespace, value)
}

// createOnly: an object is created, not changed by any edit, and created again when it is
// missing, also after the loss of the agent's store; it is deleted when it is no longer
// assigned.
func (s *suite) createOnly() {
	s.namespace("once")
	s.write(configMap("once", "a", "one"))
	s.place("once", "", ", createOnly: true")
	s.hasField("once", "cm/a", ".data.v", "one")
	s.reports("core/configmaps/once/a", "Applied", "CreateOnly")
	uid := s.there("-n", "once", "get", "cm", "a", "-o", "jsonpath={.metadata.uid}")

	start := time.Now()
	s.there("-n", "once", "patch", "cm", "a", "--type=merge", "-p", `{"data":{"v":"edited"}}`)
	s.write(configMap("once", "a", "two"))
	s.reports("core/configmaps/once/a", "Applied", "CreateOnly")
	env.Throughout(s, quietFor, func() error { return s.wrote("once", start) })
	log := func() string {
		s.Helper()
		return s.there("-n", "once", "get", "cm", "a", "-o", `jsonpath={.metadata.annotations.orrery\.dev/log}`)
	}
	before := log()
	s.loseStore()
	s.eventually("a new store has said at which place in the log it found the object", func() error {
		if log() == before {
			return errors.New("it says " + before)
		}
		return nil
	})
	start = time.Now()
	env.Throughout(s, quietFor, func() error { return s.wrote("once", start) })
	s.hasField("once", "cm/a", ".data.v", "edited")
	s.hasField("once", "cm/a", ".metadata.uid", uid)

	s.there("-n", "once", "delete", "cm", "a")
	s.hasField("once", "cm/a", ".data.v", "two")
	s.place("once", "", "")
	s.write(configMap("once", "a", "three"))
	s.hasField("once", "cm/a", ".data.v", "three")
	s.unplace("once")
	s.gone("once", "cm/a")
}

// loseStore starts the agent again without what it had on disk but its credential.
func (s *suite) loseStore() {
	s.Helper()
	s.stop()
	s.site.Agent.Start()
	s.allApplied()
}

// stop stops the agent and removes its store.
func (s *suite) stop() {
	s.Helper()
	s.site.Agent.Stop()
	if err := os.Remove(filepath.Join(s.site.Agent.Dir, "agent.db")); err != nil {
		s.Fatal(err)
	}
}

// adopt: a foreign object is left alone and reported, or adopted as a whole and deleted
// when it is no longer assigned; what a controller owns is never adopted.
func (s *suite) adopt() {
	s.namespace("taken")
	for _, name := range []string{"a", "owned", "kept"} {
		s.there("-n", "taken", "create", "cm", name, "--from-literal=v=theirs", "--from-literal=more=theirs")
	}
	s.there("-n", "taken", "create", "cm", "owner")
	uid := s.there("-n", "taken", "get", "cm", "owner", "-o", "jsonpath={.metadata.uid}")
	s.there("-n", "taken", "patch", "cm", "owned", "--type=merge", "-p", fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q,"controller":true}]}}`, uid))
	start := time.Now()
	s.write(configMap("taken", "a", "ours") + "---\n" + configMap("taken", "owned", "ours"))
	s.place("taken", "", "")
	s.reports("core/configmaps/taken/a", "Conflict", "Exists")
	s.hasField("taken", "cm/a", ".data.v", "theirs")
	uidOfA := s.there("-n", "taken", "get", "cm", "a", "-o", "jsonpath={.metadata.uid}")

	s.place("taken", ", onConflict: Adopt", "")
	s.reports("core/configmaps/taken/a", "Applied", "")
	s.hasField("taken", "cm/a", ".data.v", "ours")
	s.hasField("taken", "cm/a", ".data.more", "theirs")
	s.hasField("taken", "cm/a", ".metadata.uid", uidOfA)
	s.hasField("taken", "cm/a", `.metadata.labels.orrery\.dev/space`, space)
	if got := s.reports("core/configmaps/taken/owned", "Conflict", "Exists"); !strings.Contains(got.Message, "controller") {
		s.Errorf("what a controller owns: %+v", got)
	}
	s.hasField("taken", "cm/owned", ".data.v", "theirs")

	// What is made once is adopted as it is.
	s.place("taken", ", onConflict: Adopt", ", createOnly: true")
	s.write(configMap("taken", "kept", "ours"))
	s.reports("core/configmaps/taken/kept", "Applied", "CreateOnly")
	s.hasField("taken", "cm/kept", `.metadata.labels.orrery\.dev/space`, space)
	s.hasField("taken", "cm/kept", ".data.v", "theirs")

	s.unplace("taken")
	s.gone("taken", "cm/a")
	s.gone("taken", "cm/kept")
	s.hasField("taken", "cm/owned", ".data.v", "theirs")
	for _, e := range s.site.Cluster.AllRequests(s, env.Filter{User: env.AgentUser, Name: "owned", After: start, Writes: true}) {
		if e.Response.Code < 300 {
			s.Errorf("the agent wrote what is not its own: %s %s", e.Verb, e.RequestURI)
		}
	}
}

func deployment(name, label, image string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: fixed}
spec:
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s}}
    spec: {containers: [{name: c, image: %q}]}
`, name, label, label, image)
}

// recreate: a change of an immutable field is reported, or made by creating the object
// anew; not if the new one could not be created.
func (s *suite) recreate() {
	s.namespace("fixed")
	stateful := func(service string) string {
		return strings.Replace(strings.Replace(deployment("set", "set", "x"), "kind: Deployment", "kind: StatefulSet", 1),
			"spec:\n  selector", "spec:\n  serviceName: "+service+"\n  selector", 1)
	}
	s.write(deployment("web", "one", "x") + "---" + stateful("one"))
	s.place("fixed", "", "")
	s.reports("apps/deployments/fixed/web", "Applied", "")
	s.reports("apps/statefulsets/fixed/set", "Applied", "")
	uid := s.there("-n", "fixed", "get", "deploy", "web", "-o", "jsonpath={.metadata.uid}")

	s.write(deployment("web", "two", "x") + "---" + stateful("two"))
	s.reports("apps/deployments/fixed/web", "Failed", "Immutable")
	s.reports("apps/statefulsets/fixed/set", "Failed", "Immutable")
	s.hasField("fixed", "deploy/web", ".metadata.uid", uid)

	s.write(deployment("web", "two", "")) // which no API server takes
	s.place("fixed", ", onImmutable: Recreate", "")
	s.reports("apps/statefulsets/fixed/set", "Applied", "")
	s.hasField("fixed", "sts/set", ".spec.serviceName", "two")
	s.eventually("what could not be made is kept", func() error {
		got, err := s.report("apps/deployments/fixed/web")
		if err == nil && (got.State != "Failed" || !strings.Contains(got.Message, "not recreated")) {
			err = fmt.Errorf("it is %+v", got)
		}
		return err
	})
	s.hasField("fixed", "deploy/web", ".metadata.uid", uid)

	s.write(deployment("web", "two", "x"))
	s.reports("apps/deployments/fixed/web", "Applied", "")
	s.hasField("fixed", "deploy/web", ".spec.selector.matchLabels.app", "two")
	if now := s.there("-n", "fixed", "get", "deploy", "web", "-o", "jsonpath={.metadata.uid}"); now == uid {
		s.Error("it is the same object")
	}
	s.unplace("fixed")
	s.gone("fixed", "deploy/web")
	s.gone("fixed", "sts/set")
}

// orphan: what is no longer assigned stays as it is, without the agent's marks and
// managed fields, whether its Placement or its source was deleted.
func (s *suite) orphan() {
	s.namespace("left")
	s.write(configMap("left", "a", "one") + "---\n" + configMap("left", "b", "one") + "---\n" + configMap("left", "c", "one"))
	s.place("left", ", onRemove: Orphan", "")
	for _, name := range []string{"a", "b", "c"} {
		s.reports("core/configmaps/left/"+name, "Applied", "")
	}
	s.there("-n", "left", "label", "cm", "a", "theirs=yes")
	before := map[string]string{}
	const rest = "jsonpath={.metadata.uid} {.data} {.metadata.labels.theirs}"
	for _, name := range []string{"a", "b", "c"} {
		before[name] = s.there("-n", "left", "get", "cm", name, "-o", rest)
	}
	seen := s.watch("left", "b", "Orphaned") // the hub reports this state only for some seconds
	env.Kubectl(s, s.kubeconfig, "-n", "left", "delete", "cm", "b")
	s.eventually("the hub has reported it as Orphaned", seen)
	s.count("Orphaned", 0)
	// The last policy counts, although the Placement is deleted too: only a comparison reveals it.
	s.stop()
	s.unplace("left")
	s.site.Agent.Start()
	for _, name := range []string{"a", "b", "c"} {
		s.hasField("left", "cm/"+name, `.metadata.labels.orrery\.dev/location`, "")
		if got := s.there("-n", "left", "get", "cm", name, "-o", rest); got != before[name] {
			s.Errorf("%s is %s, was %s", name, got, before[name])
		}
		out := s.there("-n", "left", "get", "cm", name, "-o", "json", "--show-managed-fields")
		if strings.Contains(out, "orrery") {
			s.Errorf("metadata of the agent remains in %s", out)
		}
	}
	if out := s.there("-n", "left", "get", "cm", "a", "-o", "json", "--show-managed-fields"); !strings.Contains(out, "kubectl-label") {
		s.Errorf("the managed fields of other users are gone: %s", out)
	}
	start := time.Now()
	env.Throughout(s, quietFor, func() error { return s.wrote("left", start) })
}

// drift: under Report a change is named and left, until the source changes; a deletion is
// undone. Under Repair a change is undone at once.
func (s *suite) drift() {
	s.namespace("drift")
	s.write(configMap("drift", "a", "one"))
	s.place("drift", ", onDrift: Report", "")
	s.reports("core/configmaps/drift/a", "Applied", "")
	s.quiet("drift")
	s.there("-n", "drift", "patch", "cm", "a", "--type=merge", "-p", `{"data":{"v":"theirs","more":"yes"}}`)
	named := func() {
		s.Helper()
		got := s.reports("core/configmaps/drift/a", "Failed", "Drifted")
		if !strings.Contains(got.Message, ".data.v") || strings.Contains(got.Message, "more") {
			s.Errorf("it says %q", got.Message)
		}
	}
	named()
	s.quiet("drift")
	s.stop()
	s.site.Agent.Start()
	s.count("Failed", 1)
	named()
	s.hasField("drift", "cm/a", ".data.v", "theirs")

	s.there("-n", "drift", "patch", "cm", "a", "--type=merge", "-p", `{"data":{"v":null}}`)
	named()
	s.write(configMap("drift", "a", "two"))
	s.reports("core/configmaps/drift/a", "Applied", "")
	s.hasField("drift", "cm/a", ".data.v", "two")
	s.there("-n", "drift", "delete", "cm", "a")
	s.hasField("drift", "cm/a", ".data.v", "two")

	s.there("-n", "drift", "patch", "cm", "a", "--type=merge", "-p", `{"data":{"v":"theirs"}}`)
	s.reports("core/configmaps/drift/a", "Failed", "Drifted")
	s.place("drift", "", "")
	s.hasField("drift", "cm/a", ".data.v", "two")
	s.reports("core/configmaps/drift/a", "Applied", "")
	s.unplace("drift")
	s.gone("drift", "cm/a")
}
