package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/env"
	"orrery.dev/orrery/test/world"
)

// restoreEvery is how many rounds there are to one in which the hub's log is restored.
const restoreEvery = 4

// restore puts an older copy of the hub's log in place of it, while some agents lose
// their stores. What is newer than the copy stays at the sites as it is until the log
// is accepted; then they are what the copy says, and stay so through another loss.
func (l *life) restore(round int64) {
	l.t.Helper()
	start := time.Now()
	copied := filepath.Join(l.t.TempDir(), "copy")
	l.Hub.Stop()
	l.check(os.CopyFS(copied, os.DirFS(l.Hub.Dir)))
	l.Hub.Start()
	for range writesPerRound {
		l.write()
		l.write()
		l.remove()
	}
	l.settle(round)
	lost := pick(l.r, [][]string{{"north"}, {"south"}, siteNames})
	l.note("restore the log below %q, which lose their stores", lost)

	l.Hub.Stop()
	l.lose(lost)
	l.check(errors.Join(os.RemoveAll(l.Hub.Dir), os.Rename(copied, l.Hub.Dir)))
	l.Hub.Start()
	l.startAgent()
	unproven := l.unproven()
	for _, name := range siteNames {
		env.Throughout(l.t, time.Second, func() error { return l.spared(l.Sites[name], l.before[name]) })
	}
	for _, name := range unproven {
		env.Orrery(l.t, l.Root, "location", "accept", name)
	}
	l.before, l.promised = map[string]world.Listed{}, map[string]string{}
	l.settle(round)

	l.Hub.Stop()
	l.lose(lost)
	l.Hub.Start() // of what begins now nothing is accepted
	l.startAgent()
	l.before = map[string]world.Listed{} // a new store writes each object once
	l.settle(round)
	if left := l.unproven(); len(left) > 0 {
		l.t.Errorf("round %d: after a second loss %q wait for an acceptance", round, left)
	}
	l.t.Logf("round %d: restored below %q, %q accepted, in %s", round, lost, unproven, time.Since(start).Round(time.Millisecond))
}

func (l *life) check(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// lose kills agents and takes their stores.
func (l *life) lose(names []string) {
	l.t.Helper()
	for _, name := range names {
		a := l.Sites[name].Agent
		a.Kill()
		l.check(os.Remove(filepath.Join(a.Dir, "agent.db")))
	}
}

// unproven are the sites whose agents say that something waits for an acceptance, once
// all have looked around.
func (l *life) unproven() (all []string) {
	l.t.Helper()
	env.Eventually(l.t, soon, func() error {
		all = nil
		for _, name := range siteNames {
			var location v1alpha1.Location
			if err := json.Unmarshal([]byte(env.Orrery(l.t, l.Root, "location", "describe", name, "-o", "json")), &location); err != nil {
				return err
			}
			a, have := location.Status.Agent, location.Status.Counts
			if a == nil || a.Lineage == "" {
				return fmt.Errorf("location %s: the agent has not said how it is", name)
			}
			if a.Lineage == "Unproven" {
				all = append(all, name)
			} else if have.Applied < have.Assigned {
				return fmt.Errorf("location %s: %d of %d are applied", name, have.Applied, have.Assigned)
			}
		}
		return nil
	})
	return all
}

// spared says what was removed from a site, replaced or changed.
func (l *life) spared(s *world.Site, before world.Listed) error {
	now, err := s.Marked(l.World)
	if err != nil {
		return err
	}
	var all []error
	for k, was := range before {
		is := now[k]
		switch {
		case is == nil:
			all = append(all, fmt.Errorf("location %s: %s is gone", s.Name, k))
		case is.GetUID() != was.GetUID(), is.GetDeletionTimestamp() != nil:
			all = append(all, fmt.Errorf("location %s: %s is replaced", s.Name, k))
		case !reflect.DeepEqual(is.Object["data"], was.Object["data"]), !reflect.DeepEqual(is.Object["spec"], was.Object["spec"]),
			is.GetLabels()["for"] != was.GetLabels()["for"]:
			all = append(all, fmt.Errorf("location %s: %s was changed", s.Name, k))
		}
	}
	return errors.Join(all...)
}
