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
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
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
		l.next()
		l.write()
		l.write()
		l.remove()
	}
	l.converge(round)
	l.next()
	lost := pick(l.r, [][]string{{"north"}, {"south"}, siteNames})
	l.record("restore the log below %q, which lose their stores", lost)

	l.Hub.Stop()
	l.lose(lost)
	l.check(errors.Join(os.RemoveAll(l.Hub.Dir), os.Rename(copied, l.Hub.Dir)))
	l.Hub.Start()
	l.startAgent()
	l.connected()
	for _, name := range siteNames {
		env.Throughout(l.t, time.Second, func() error { return l.spared(l.Sites[name], l.before[name]) })
	}
	l.accept()
	l.before, l.promised = map[string]world.Listed{}, map[string]string{}
	l.converge(round)

	l.Hub.Stop()
	l.lose(lost)
	l.Hub.Start() // of what begins now nothing is accepted
	l.startAgent()
	before := l.before
	l.before = map[string]world.Listed{}
	l.converge(round)
	for _, name := range lost {
		l.rewritten(name, before[name])
	}
	for _, name := range siteNames {
		env.Eventually(l.t, soon, func() error { // the agent reports it after it has found out
			unproven, err := l.unproven(name)
			if err == nil && unproven {
				err = fmt.Errorf("round %d: after a second loss location %s waits for an acceptance", round, name)
			}
			return err
		})
	}
	l.t.Logf("round %d: restored below %q in %s", round, lost, time.Since(start).Round(time.Millisecond))
}

// rewritten waits until an agent with a new store has written each object of a site once, with its
// position in the present log. Any later write has another reason.
func (l *life) rewritten(name string, before world.Listed) {
	l.t.Helper()
	env.Eventually(l.t, soon, func() error {
		now, err := l.Sites[name].Marked(l.World)
		if err != nil {
			return err
		}
		l.before[name] = now
		for k, is := range now {
			if old := before[k]; old != nil && is.GetAnnotations()[v1alpha1.LogAnnotation] == old.GetAnnotations()[v1alpha1.LogAnnotation] {
				return fmt.Errorf("location %s: %s is as it was before the second loss", name, k)
			}
		}
		return nil
	})
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
		l.check(errors.Join(os.Remove(filepath.Join(a.Dir, "agent.db")), os.Remove(filepath.Join(a.Dir, "status.json"))))
	}
}

// connected waits until all agents follow the hub.
func (l *life) connected() {
	l.t.Helper()
	env.Eventually(l.t, soon, func() error {
		for _, name := range siteNames {
			var status struct {
				Connected bool `json:"connected"`
				Desired   int  `json:"desired"`
			}
			b, err := os.ReadFile(filepath.Join(l.Sites[name].Agent.Dir, "status.json"))
			if err == nil {
				err = json.Unmarshal(b, &status)
			}
			if err != nil || !status.Connected || status.Desired == 0 {
				return fmt.Errorf("location %s: the agent says %+v, %w", name, status, err)
			}
		}
		return nil
	})
}

// accept accepts the log for all sites that wait for that, until they are what it says.
func (l *life) accept() {
	l.t.Helper()
	accepted := map[string]bool{}
	env.Eventually(l.t, soon, func() error {
		for _, name := range siteNames {
			if accepted[name] {
				continue
			}
			unproven, err := l.unproven(name)
			if err == nil && unproven {
				_, err = env.Command{Binary: "orrery", Kubeconfig: l.Root, Args: []string{"location", "accept", name}}.Try(l.t)
				accepted[name] = err == nil
			}
			if err != nil {
				return err
			}
		}
		for _, name := range siteNames {
			want, err := l.wanted(name)
			if err == nil {
				_, err = l.compare(l.Sites[name], want)
			}
			if err != nil {
				return fmt.Errorf("location %s: %w", name, err)
			}
		}
		return nil
	})
}

// unproven reports whether the agent of a site waits until a user accepts the restored log.
func (l *life) unproven(name string) (bool, error) {
	var location v1alpha1.Location
	out, err := env.Command{Binary: "orrery", Kubeconfig: l.Root, Args: []string{"location", "describe", name, "-o", "json"}}.Try(l.t)
	if err == nil {
		err = json.Unmarshal([]byte(out), &location)
	}
	a := location.Status.Agent
	return a != nil && a.LogIdentity == "Unproven" && a.Awaits != "", err
}

// spared returns an error for each object of a site that was removed, replaced or changed.
func (l *life) spared(s *world.Site, before world.Listed) error {
	now, err := s.Marked(l.World)
	if err != nil {
		return err
	}
	var all []error
	for k, old := range before {
		is := now[k]
		switch {
		case is == nil:
			all = append(all, fmt.Errorf("location %s: %s is gone", s.Name, k))
		case is.GetUID() != old.GetUID(), is.GetDeletionTimestamp() != nil:
			all = append(all, fmt.Errorf("location %s: %s is replaced", s.Name, k))
		case !reflect.DeepEqual(is.Object["data"], old.Object["data"]), !reflect.DeepEqual(is.Object["spec"], old.Object["spec"]),
			is.GetLabels()["for"] != old.GetLabels()["for"]:
			all = append(all, fmt.Errorf("location %s: %s was changed", s.Name, k))
		}
	}
	return errors.Join(all...)
}
