package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// timeline is a hub's log as the model knows it: which places are in it, and whether
// it is accepted whatever it is.
type timeline struct {
	markers  []marked
	revision int64
	accepted bool
}

func (l timeline) contains(p ownership.Pair) bool {
	name := ""
	for _, m := range l.markers {
		if m.revision <= p.Revision {
			name = m.name
		}
	}
	return l.accepted || !p.IsZero() && p.Revision <= l.revision && name == p.Marker()
}

// logNow records the hub's current log, with the locks of hub and cluster.
func (w *world) logNow(only bool) {
	now := timeline{
		markers: slices.Clone(w.hub.markers), revision: w.hub.revision,
		accepted: w.hub.settings.Accept == w.hub.marker(w.hub.revision),
	}
	n := len(w.logs)
	switch {
	case only:
		w.logs = []timeline{now}
	case n > 0 && w.logs[n-1].accepted == now.accepted && slices.Equal(w.logs[n-1].markers, now.markers):
		w.logs[n-1] = now
	default:
		w.logs = append(w.logs, now)
	}
}

// continues reports whether a log that the agent may follow contains the log position of an
// object, or the agent's store has the put itself.
func (w *world) continues(o *thing) bool {
	p := ownership.ParsePair(o.meta("annotations", v1alpha1.LogAnnotation))
	if slices.ContainsFunc(w.logs, func(l timeline) bool { return l.contains(p) }) {
		return true
	}
	known := false
	if err := w.agent.store.View(func(x *store.Tx) error {
		for _, k := range w.spaceKeys(o.id) {
			entry, _, err := x.Desired.Get(k)
			if err != nil {
				return err
			}
			known = known || entry != nil && entry.Object() != nil && !p.IsZero() && entry.Object().Log == p
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return known
}

// judgeLog checks that no object is changed or removed whose log position is not proven to be in
// the hub's log.
func (w *world) judgeLog(verb string, before *thing, wrong func(string, ...any)) {
	if before == nil || before.foreign || implied(before) {
		return
	}
	switch {
	case (verb == "delete" || verb == "let go") && w.unwanted(before.id):
	case verb == "create", w.recordOf(before.id) != nil:
		return
	}
	if !w.continues(before) {
		wrong("it was written by %q, which the hub's log does not have: %+v", before.meta("annotations", v1alpha1.LogAnnotation), w.logs)
	}
}

// waits reports whether an object may not be touched until the log is accepted. If only an earlier log has
// it, an agent that knows that log may touch it, and one that does not leaves it alone: the report decides.
func (w *world) waits(o *thing) bool {
	switch {
	case o == nil || o.foreign || implied(o) || w.recordOf(o.id) != nil:
		return false
	case !w.continues(o):
		return true
	case w.logs[len(w.logs)-1].contains(ownership.ParsePair(o.meta("annotations", v1alpha1.LogAnnotation))):
		return false
	}
	reports := w.reportsOf()
	return slices.ContainsFunc(w.spaceKeys(o.id), func(k string) bool { return reports[k].Reason == v1alpha1.ReasonLogUnproven })
}

// isHeld reports whether the hub holds an object of which the agent has no rendering, so nothing is to change.
func (w *world) isHeld(o *thing) bool {
	desired := w.contentOf()
	_, winner := w.winner(o.id, desired)
	return winner == nil && slices.ContainsFunc(w.spaceKeys(o.id), func(k string) bool { return desired[k].Kind == store.WantHold })
}

// waiting are the objects that are to change and may not be touched.
func (w *world) waiting() (all []key.Identity) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	for _, o := range w.cluster.objects {
		if w.waits(o) && !w.isHeld(o) {
			all = append(all, o.id)
		}
	}
	return all
}

// pauseWaits reports whether the end of a pause waits for the acceptance of the log.
func (w *world) pauseWaits() bool {
	m := w.agent.store.Meta()
	return m.Settings.Halt != "" && m.Waiting != nil && m.Waiting.Halt == "" && !w.agent.Status().Proven
}

// conclude accepts the log if something waits for that at the end. Then all is as the hub
// says, and stays so when the store is lost after that.
func (w *world) conclude(again bool) error {
	all, paused := w.waiting(), w.pauseWaits()
	if len(all) == 0 && !paused {
		return nil
	}
	w.tell("%v wait; accept", all)
	s := w.agent.Status()
	for start := time.Now(); (s.Deferred == 0 && !paused || s.Awaits == "") && time.Since(start) < settleTimeout; s = w.agent.Status() {
		<-time.After(time.Second) // it is yet to be found
	}
	if s.Deferred == 0 && !paused || s.Awaits == "" {
		return fmt.Errorf("%v wait, and the agent says %+v", all, s)
	}
	w.hub.mu.Lock()
	w.hub.settings.Accept = w.hub.marker(w.hub.revision)
	w.cluster.mu.Lock()
	w.frozen = false
	w.cluster.mu.Unlock()
	w.hub.say()
	w.recordHubState()
	w.hub.mu.Unlock()
	if err := w.awaitSettled(false); err != nil {
		return fmt.Errorf("accepted: %w", err)
	}
	<-time.After(5 * time.Minute) // all retries have happened by then
	w.lose(func() {
		if again {
			w.hub.start()
		}
	})
	if err := w.awaitSettled(false); err != nil {
		return fmt.Errorf("lost again: %w", err)
	}
	if all := w.waiting(); len(all) > 0 {
		return fmt.Errorf("%v wait after the second loss", all)
	}
	if w.agent.Status().Deferred > 0 {
		return errors.New("the agent says that something waits")
	}
	return nil
}
