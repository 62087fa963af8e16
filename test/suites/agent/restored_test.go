package agent_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// TestRestoredCluster restores the etcd of a cluster under a running agent: to a revision that is below
// the one that the agent has seen, and, after others have written, at and above it. What the snapshot
// lacks is made again, and what it has as of before gets its present content.
func TestRestoredCluster(t *testing.T) {
	const many = 20
	c := env.StartCluster(t, "restored", env.APIOnly())
	for _, test := range []struct {
		name   string
		writes int
	}{{"below", 0}, {"above", 1000}} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, c, "restored-"+test.name)
			s.hub.Put(s.key("kept"), "uid-kept", s.configMap("kept", "1"))
			s.hub.Put(s.key("removed"), "uid-removed", s.configMap("removed", "1"))
			s.start()
			s.says(s.key("kept"), wire.Applied, "")
			s.says(s.key("removed"), wire.Applied, "")
			snapshot := c.Snapshot()
			s.hub.Put(s.key("kept"), "uid-kept", s.configMap("kept", "2"))
			s.hub.Del(s.key("removed"), wire.Deleted)
			for i := range many {
				name := fmt.Sprint("o", i)
				s.hub.Put(s.key(name), "uid-"+name, s.configMap(name, "1"))
			}
			all := func() (err error) {
				for i := range many {
					err = errors.Join(err, s.has(fmt.Sprint("o", i), "1")())
				}
				return errors.Join(err, s.has("kept", "2")(), s.gone("removed")())
			}
			env.Eventually(t, soon, all)
			for i := range many {
				s.says(s.key(fmt.Sprint("o", i)), wire.Applied, "")
			}
			c.Restore(snapshot, test.writes)
			env.Eventually(t, soon, all)
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
	s.says(job, wire.Applied, "Completed")
	s.says(s.key("a"), wire.Applied, "")
	if reported := s.hub.AgentStatus().Cluster; reported == nil || reported.Replaced != "" {
		t.Errorf("of the first cluster the agent reports %+v", reported)
	}
	for _, running := range []bool{true, false} {
		if !running {
			s.halt()
		}
		c.Rebuild()
		if !running {
			s.start()
		}
		env.Eventually(t, soon, s.has("a", "1"))
		runs()
		s.says(job, wire.Applied, "Completed")
		env.Eventually(t, soon, func() error {
			if reported := s.hub.AgentStatus().Cluster; reported == nil || reported.Replaced == "" {
				return fmt.Errorf("the agent reports %+v", reported)
			}
			return nil
		})
	}
}
