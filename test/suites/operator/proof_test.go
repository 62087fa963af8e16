package operator

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
)

// TestLostStoreAndRestoredLog restores the hub from an older copy while the agent
// loses its store: nothing that is newer than the copy is deleted or set back until
// the log is accepted, and then a store may be lost again.
func TestLostStoreAndRestoredLog(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.put("1", "kept", "changed", "deleted")
	s.Eventually("there", s.mine(3))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
	s.Hub.Stop()
	copied := s.Hub.Dir + ".copy"
	if err := os.CopyFS(copied, os.DirFS(s.Hub.Dir)); err != nil {
		t.Fatal(err)
	}
	s.Hub.Start()
	s.put("2", "changed", "new")
	env.Kubectl(t, s.file, "delete", "configmap", "-n", namespace, "deleted")
	s.Eventually("the change is there", s.hasValue("changed", "2"))
	s.Eventually("the new is there", s.hasValue("new", "2"))
	s.Eventually("the deleted is gone", s.lacks("deleted"))
	before := s.uids("kept", "changed", "new")

	s.Hub.Stop()
	s.loseStore()
	if err := errors.Join(os.RemoveAll(s.Hub.Dir), os.Rename(copied, s.Hub.Dir)); err != nil {
		t.Fatal(err)
	}
	s.Hub.Start()
	s.Agent.Start()
	s.Eventually("what only the copy has is made", s.hasValue("deleted", "1"))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "LineageUnproven")
	s.unproven(1)
	s.untouched(before)
	if out := env.Orrery(t, s.Root, "location", "describe", siteName); !strings.Contains(out, "orrery location accept "+siteName) {
		t.Errorf("describe says %s", out)
	}
	former := s.location().Status.Agent.Awaits
	s.Agent.Kill()
	s.Agent.Start()
	s.Hub.Restart()
	// The status is that of the time before the restart until the agent has connected again.
	s.Eventually("the agent awaits the log of the restarted hub", func() error {
		l, err := s.described()
		if err == nil && l.Status.Agent.Awaits == former {
			err = errors.New("it awaits " + former)
		}
		return err
	})
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, "LineageUnproven")
	s.unproven(1)
	s.untouched(before)

	// The status can be that of the time before the restart. It names a log that the agent awaits no more.
	s.Hub.Restart()
	s.Eventually("the log is accepted", func() error {
		_, err := env.Command{Binary: "orrery", Kubeconfig: s.Root, Args: []string{"location", "accept", siteName}}.Try(t)
		return err
	})
	if l := s.location(); l.Status.Agent.LogIdentity != "Proven" {
		t.Errorf("accept returned while the agent said %+v", l.Status.Agent)
	}
	s.Eventually("the change is taken back", s.hasValue("changed", "1"))
	s.Eventually("the new one goes", s.lacks("new"))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
	if now := s.uids("kept", "changed"); !slices.Equal(now, before[:2]) {
		t.Errorf("UIDs %q became %q", before[:2], now)
	}
	s.Hub.Restart() // nothing is accepted of what begins now
	s.loseStore()
	s.Agent.Start()
	s.put("3", "kept", "changed", "deleted")
	for _, name := range []string{"kept", "changed", "deleted"} {
		s.Eventually(name+" changes after the second loss", s.hasValue(name, "3"))
	}
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
}

// loseStore kills the agent and takes its store.
func (s *site) loseStore() {
	s.t.Helper()
	s.Agent.Kill()
	if err := os.Remove(filepath.Join(s.Agent.Dir, "agent.db")); err != nil {
		s.t.Fatal(err)
	}
}

// untouched checks for a while that what is newer than the copy stays as it is.
func (s *site) untouched(before []types.UID) {
	s.t.Helper()
	env.Throughout(s.t, observation, func() error {
		if now := s.uids("kept", "changed", "new"); !slices.Equal(now, before) {
			return errors.New("replaced")
		}
		return errors.Join(s.hasValue("kept", "1")(), s.hasValue("changed", "2")(), s.hasValue("new", "2")())
	})
}
