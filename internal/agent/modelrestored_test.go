package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
)

// contents are the objects that the cluster had at a revision, by identity.
func (c *cluster) contents(revision uint64) map[string]*thing {
	all := map[string]*thing{}
	for _, h := range c.log {
		switch {
		case h.revision > revision:
			return all
		case h.after == nil:
			delete(all, h.before.id.String())
		default:
			all[h.after.id.String()] = h.after
		}
	}
	return all
}

// restore has the cluster be as it was at a revision, and watches end. Others then write further revisions. It
// returns false, and does nothing, if something was being deleted at that revision.
func (c *cluster) restore(to, writes uint64) bool {
	old := c.contents(to)
	for _, o := range old {
		if o.terminating {
			return false
		}
	}
	c.objects, c.revision, c.compacted = old, to+writes, min(c.compacted, to)
	c.log = c.log[:slices.IndexFunc(append(c.log, happening{revision: to + 1}), func(h happening) bool { return h.revision > to })]
	c.listed = map[collection]uint64{}
	c.epoch++
	c.collect()
	c.wake()
	return true
}

// observes reports whether the agent observes the kinds of all objects of the location. Others can come back unseen.
func (w *world) observes(all map[string]*thing) bool {
	uses := w.agent.engine.Uses()
	for _, o := range all {
		if _, used := uses[o.id.Resource]; !used && o.meta("labels", v1alpha1.LocationLabel) != "" {
			return false
		}
	}
	return true
}

// rewind restores the cluster's etcd from a snapshot, which takes a while in which nothing answers.
func (w *world) rewind(c int) {
	w.cluster.mu.Lock()
	before := w.cluster.weather
	w.cluster.weather = weather{dark: true}
	w.cluster.wake()
	w.cluster.mu.Unlock()
	<-time.After(time.Second)
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.cluster.weather = before
	if log := w.cluster.log; len(log) > 0 {
		to, writes := log[c%len(log)].revision, uint64(c%2*1000)
		if !w.observes(w.cluster.contents(to)) {
			return
		}
		w.tell("the cluster is restored from revision %d of %d: %v, and then at %d", to, w.cluster.revision, w.cluster.restore(to, writes), w.cluster.revision)
		for id, o := range w.cluster.objects {
			if rec := w.recordOf(o.id); o.meta("labels", v1alpha1.LocationLabel) == "" && (rec == nil || rec.UID != o.uid) && !o.foreign {
				o = o.copy()
				o.foreign = true // nothing proves it to be ours any more
				w.cluster.objects[id] = o
			}
		}
		w.forgot = true
	}
	w.cluster.wake()
}

// TestModelRestoredCluster restores the cluster to before most of what the agent has made, also after others
// have written beyond the revision that the agent has seen.
func TestModelRestoredCluster(t *testing.T) {
	for _, writes := range []uint64{0, 1000} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, dir)
			defer w.stop(true)
			for i, id := range []int{2, 3, 4} {
				w.edit(identities[id], 7, i)
			}
			if writes == 0 { // or else nothing shows that there is one again, of which kind there is no other
				w.edit(identities[8], 7, 1)
			}
			if err := w.awaitSettled(false); err != nil {
				t.Fatal(err)
			}
			w.cluster.mu.Lock()
			to := w.cluster.revision
			w.cluster.mu.Unlock()
			w.edit(identities[2], 7, 3)
			w.edit(identities[5], 7, 1)
			w.edit(identities[6], 7, 1)
			w.drop(identities[3], 1, 1)
			w.drop(identities[8], 1, 1)
			if err := w.awaitSettled(false); err != nil {
				t.Fatal(err)
			}
			w.cluster.mu.Lock()
			w.cluster.weather = weather{dark: true}
			w.cluster.wake()
			w.cluster.mu.Unlock()
			<-time.After(time.Second)
			w.cluster.mu.Lock()
			w.cluster.weather = weather{}
			if !w.cluster.restore(to, writes) {
				t.Error("something was being deleted")
			}
			w.forgot = true
			w.cluster.mu.Unlock()
			if err := w.awaitSettled(true); err != nil {
				t.Error(err)
			}
		})
	}
}
