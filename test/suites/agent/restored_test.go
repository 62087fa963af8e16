package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// restoredKinds are kinds of objects in the test of restored clusters: in a Namespace and without one, built-in and
// custom.
var restoredKinds = []struct{ resource, path, apiVersion, kind, rest string }{
	{"core/secrets/NS/", "/api/v1/namespaces/NS/secrets/", "v1", "Secret", `,"data":{"a":"Yg=="}`},
	{"rbac.authorization.k8s.io/roles/NS/", "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/roles/", "rbac.authorization.k8s.io/v1", "Role", `,"rules":[]`},
	{"rbac.authorization.k8s.io/clusterroles/", "/apis/rbac.authorization.k8s.io/v1/clusterroles/", "rbac.authorization.k8s.io/v1", "ClusterRole", `,"rules":[]`},
	{"NS.example/widgets/NS/", "/apis/NS.example/v1/namespaces/NS/widgets/", "NS.example/v1", "Widget", ""},
	{"core/services/NS/", "/api/v1/namespaces/NS/services/", "v1", "Service", `,"spec":{"ports":[{"port":80}]}`},
}

// TestRestoredCluster restores the etcd of a cluster under a running agent: to a revision that is below
// the one that the agent has seen, and, after others have written, at and above it. What the snapshot
// lacks is made again, what it has as of before gets its present content, and what it has again is removed, in all
// kinds. If the revision shows the restore, that includes a kind of which the agent had nothing any more.
func TestRestoredCluster(t *testing.T) {
	const many = 20
	c := env.StartCluster(t, "restored", env.APIOnly())
	for _, test := range []struct {
		name   string
		writes int
	}{{"below", 0}, {"above", 1000}} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, c, "restored-"+test.name)
			kinds, unused := restoredKinds[:len(restoredKinds)-1], restoredKinds[len(restoredKinds)-1]
			in := func(text string) string { return strings.ReplaceAll(text, "NS", s.name) }
			keyOf := func(i int, name string) string { return "team/" + in(restoredKinds[i].resource) + name + "-" + s.name }
			put := func(i int, name, value string) {
				k, namespace := restoredKinds[i], ""
				if strings.Contains(k.path, "/namespaces/") {
					namespace = fmt.Sprintf(`,"namespace":%q`, s.name)
				}
				s.hub.Put(keyOf(i, name), fmt.Sprint("uid-", i, name), fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q%s,"annotations":{"v":%q}}%s}`,
					in(k.apiVersion), k.kind, name+"-"+s.name, namespace, value, k.rest))
			}
			// hasValue returns an error unless an object of a kind has a value; empty: it is not there.
			hasValue := func(i int, name, value string) error {
				text, err := c.Client.Discovery().RESTClient().Get().AbsPath(in(restoredKinds[i].path) + name + "-" + s.name).DoRaw(t.Context())
				if now := gjson.GetBytes(text, "metadata.annotations.v").Str; apierrors.IsNotFound(err) && value != "" || err == nil && now != value {
					return fmt.Errorf("%s has %q, want %q", keyOf(i, name), now, value)
				} else if err != nil && !apierrors.IsNotFound(err) {
					return err
				}
				return nil
			}
			s.hub.Put("team/apiextensions.k8s.io/customresourcedefinitions/widgets."+s.name+".example", "uid-crd", strings.ReplaceAll(crd, "example.org", s.name+".example"))
			s.hub.Put(s.key("kept"), "uid-kept", s.configMap("kept", "1"))
			s.hub.Put(s.key("removed"), "uid-removed", s.configMap("removed", "1"))
			for i := range restoredKinds {
				put(i, "removed", "1")
			}
			for i := range kinds {
				put(i, "kept", "1")
			}
			s.start()
			s.reports(s.key("kept"), wire.Applied, "")
			s.reports(s.key("removed"), wire.Applied, "")
			for i := range restoredKinds {
				s.reports(keyOf(i, "removed"), wire.Applied, "")
			}
			for i := range kinds {
				s.reports(keyOf(i, "kept"), wire.Applied, "")
			}
			snapshot := c.Snapshot()
			s.hub.Put(s.key("kept"), "uid-kept", s.configMap("kept", "2"))
			s.hub.Del(s.key("removed"), wire.Deleted)
			for i := range many {
				name := fmt.Sprint("o", i)
				s.hub.Put(s.key(name), "uid-"+name, s.configMap(name, "1"))
			}
			for i := range kinds {
				put(i, "kept", "2")
				put(i, "made", "1")
			}
			for i := range restoredKinds {
				s.hub.Del(keyOf(i, "removed"), wire.Deleted)
			}
			all := func() (err error) {
				for i := range many {
					err = errors.Join(err, s.hasValue(fmt.Sprint("o", i), "1")())
				}
				for i := range kinds {
					err = errors.Join(err, hasValue(i, "kept", "2"), hasValue(i, "made", "1"), hasValue(i, "removed", ""))
				}
				return errors.Join(err, s.hasValue("kept", "2")(), s.gone("removed")())
			}
			last := func() error { return hasValue(len(kinds), "removed", "") }
			env.Eventually(t, soon, all)
			env.Eventually(t, soon, last)
			for i := range many {
				s.reports(s.key(fmt.Sprint("o", i)), wire.Applied, "")
			}
			for i := range kinds {
				s.reports(keyOf(i, "made"), wire.Applied, "")
			}
			env.Eventually(t, soon, func() error {
				if _, ok := s.hub.Report(keyOf(len(kinds), "removed")); ok {
					return fmt.Errorf("the last %s is still reported", unused.kind)
				}
				return nil
			})
			c.Restore(snapshot, test.writes)
			env.Eventually(t, soon, all)
			if test.writes == 0 {
				env.Eventually(t, soon, last)
			}
		})
	}
}

// TestRebuiltCluster replaces a cluster by an empty one at the same address, under a running agent and under one
// that is stopped meanwhile. All is made there, a Job that has ended on the former cluster runs, and
// the hub receives that it is another cluster.
func TestRebuiltCluster(t *testing.T) {
	c := env.StartCluster(t, "rebuilt", env.APIOnly())
	s := newSite(t, c, "rebuilt")
	job := "team/batch/jobs/rebuilt/once"
	s.hub.Put(s.key("a"), "uid-a", s.configMap("a", "1"))
	s.hub.Put(job, "uid-once", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"once","namespace":"rebuilt"},`+
		`"spec":{"template":{"spec":{"containers":[{"image":"x","name":"x"}],"restartPolicy":"Never"}}}}`)
	s.start()
	runs := func() {
		t.Helper()
		env.Eventually(t, soon, func() error {
			now, err := s.client.BatchV1().Jobs("rebuilt").Get(t.Context(), "once", metav1.GetOptions{})
			if err != nil {
				return err
			}
			now.Status = batchv1.JobStatus{
				StartTime: &now.CreationTimestamp, CompletionTime: &metav1.Time{Time: now.CreationTimestamp.Add(time.Second)}, Succeeded: 1,
				Conditions: []batchv1.JobCondition{
					{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
				},
			}
			_, err = s.client.BatchV1().Jobs("rebuilt").UpdateStatus(t.Context(), now, metav1.UpdateOptions{})
			return err
		})
	}
	runs()
	s.reports(job, wire.Applied, "Completed")
	s.reports(s.key("a"), wire.Applied, "")
	if reported := s.hub.AgentStatus().Cluster; reported == nil || reported.Replaced != "" {
		t.Errorf("of the first cluster the agent reports %+v", reported)
	}
	replaced := ""
	for _, running := range []bool{true, false} {
		if !running {
			s.halt()
		}
		before, _ := s.hub.Report(job)
		c.Rebuild()
		if !running {
			s.start()
		}
		env.Eventually(t, soon, s.hasValue("a", "1"))
		runs()
		env.Eventually(t, soon, func() error { // the report of the former cluster's Job is the same but for its time
			if r, _ := s.hub.Report(job); r.State != wire.Applied || r.Reason != "Completed" || r.Since == before.Since {
				return fmt.Errorf("the report is %+v, was %+v", r, before)
			}
			return nil
		})
		env.Eventually(t, soon, func() error {
			if reported := s.hub.AgentStatus().Cluster; reported == nil || reported.Replaced == "" || reported.Replaced == replaced {
				return fmt.Errorf("the agent reports %+v, and reported %q before", reported, replaced)
			}
			return nil
		})
		replaced = s.hub.AgentStatus().Cluster.Replaced
	}
}
