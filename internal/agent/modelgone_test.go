package agent

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// A hub that has its locations confirm that an object is gone, in the model: it says so in
// the content until the location has.

// leave makes the hub send a removal that the location has to confirm.
func (w *world) leave(k string, id key.Identity, previous wire.Frame) {
	uid := "u-" + k[:1]
	switch {
	case previous.Put != nil:
		uid = previous.Put.UID
	case previous.Hold != nil:
		uid = previous.Hold.UID
	}
	w.tell("gone %s uid %s", k, uid)
	version := "v1"
	if g := id.APIGroup(); g != "" {
		version = g + "/v1"
	}
	w.hub.write(wire.Frame{Gone: &wire.Gone{
		Key: k, UID: uid, Digest: wire.SumOf([]byte("gone")), APIVersion: version, Kind: servedKind(id.Resource).kind,
	}})
}

// confirmed has the hub forget an object that a location has confirmed to be gone. It must
// be: nothing at the cluster may prove to be of it.
func (w *world) confirmed(g *wire.Gone) {
	o, err := key.ParsePath(g.Key)
	if err != nil {
		panic(err)
	}
	w.tell("confirmed %s uid %s", g.Key, g.UID)
	w.cluster.mu.Lock()
	there := w.cluster.objects[w.placing.TargetIdentity(o).String()]
	if there != nil && !there.foreign && there.meta("labels", v1alpha1.LocationLabel) != "" &&
		there.meta("annotations", v1alpha1.SourceUIDAnnotation) == g.UID && there.meta("labels", v1alpha1.SpaceLabel) == string(o.Space) {
		w.bad = append(w.bad, fmt.Sprintf("%s was said to be gone, and is there", g.Key))
	}
	w.cluster.mu.Unlock()
	w.hub.write(del(g.Key, wire.Deleted))
	// Another space's object of the identity takes its place.
	content := w.hub.content(w.hub.revision)
	for _, other := range w.spaceKeys(w.placing.TargetIdentity(o)) {
		if f := content[other]; f.Conflict != nil {
			w.put(other, wire.Frame{}, 1, 1)
		}
	}
}

// TestModelGone plays schedules in which objects are to be gone soon after they were
// desired, with kills, lost stores, and broken links in between: mostly nothing
// of them was reported by then. An object that is reported as removed no longer exists.
func TestModelGone(t *testing.T) {
	for seed := range seeds.All(t, goneSchedules) {
		if err := play(t, seed, goneSchedule(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// goneSchedules is the number of schedules of TestModelGone.
const goneSchedules = 200

// goneSchedule has objects desired, then to be gone, with things that happen in between.
func goneSchedule(seed int) (all []step) {
	rng := rand.New(rand.NewPCG(uint64(seed), 7))
	happens := func() {
		// Time goes by, or the agent is killed or loses its store, the hub is away, the cluster
		// fails, or the hub starts again.
		does := []int{84, 84, 70, 70, 54, 62, 76}
		do, b, c := does[rng.IntN(len(does))], rng.IntN(1000), 4*rng.IntN(250)+rng.IntN(3)
		switch do {
		case 76:
			b = 4*(b/4) + b%2 // no older copy: TestModel plays these
		case 54:
			b = 10*(b/10) + 8*(b%2) // it is away, or there again
		}
		all = append(all, step{do, 0, b, c})
	}
	for range 2 {
		id, v := rng.IntN(len(identities)), 1+9*rng.IntN(100)
		all = append(all, step{0, id, 1 + 5*rng.IntN(100), v})
		happens()
		all = append(all, step{24, id, 4 * rng.IntN(100), v}) // to be gone
		happens()
		happens()
	}
	return all
}

// TestModelGoneAndMadeAgain has objects that are to be gone made again from a backup of the
// cluster while the agent is away, with their marks and other UIDs. They are not said to be
// gone before these are.
func TestModelGoneAndMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		ids := identities[2:5]
		p.offerAll("1", ids...)
		dir := p.stop(true)
		p.onCluster(func(c *cluster) {
			for _, id := range ids {
				n := c.objects[id.String()].copy()
				c.set(id.String(), nil)
				c.set(id.String(), n)
			}
		})
		p.hub.mu.Lock()
		content := p.hub.content(p.hub.revision)
		for _, id := range ids {
			k := key.Object{Space: "s", Identity: id}.Path()
			p.leave(k, id, content[k])
		}
		p.hub.mu.Unlock()
		p.start(dir)
		<-time.After(5 * time.Minute)
		for _, id := range ids {
			p.expectValues("gone", map[key.Identity]string{id: ""})
		}
		p.hub.mu.Lock()
		defer p.hub.mu.Unlock()
		for k, f := range p.hub.content(p.hub.revision) {
			if f.Gone != nil {
				t.Errorf("%s has never been said to be gone", k)
			}
		}
	})
}

// TestModelSaysWhy checks that the report of an object that is being removed contains the cause
// that the hub has sent, also after a restart, and no longer does when it is desired again.
func TestModelSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		id := identities[3]
		k := key.Object{Space: "s", Identity: id}.Path()
		p.offerAll("1", id)
		p.onCluster(func(c *cluster) { c.slow = map[key.Identity]time.Duration{id: time.Hour} })
		p.hub.mu.Lock()
		p.hub.write(wire.Frame{Del: &wire.Del{Key: k, Cause: wire.Unassigned, Placement: "root/audit"}})
		p.hub.mu.Unlock()
		expectReport := func(state wire.State, cause wire.Cause, placement string) {
			t.Helper()
			<-time.After(time.Minute)
			p.hub.mu.Lock()
			defer p.hub.mu.Unlock()
			if r := p.hub.reports[k]; r.State != state || r.Cause != cause || r.LetGoBy != placement {
				t.Errorf("the report is %+v", r)
			}
		}
		expectReport(wire.Removing, wire.Unassigned, "root/audit")
		p.start(p.stop(false))
		expectReport(wire.Removing, wire.Unassigned, "root/audit")
		p.onCluster(func(c *cluster) { c.slow[id] = 0 })
		p.offer(id, "2", wire.Policy{})
		<-time.After(2 * time.Hour)
		expectReport(wire.Applied, "", "")
	})
}
