package hub_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// lostAfter is how long a location may be without a session at a hub whose clock a test moves. It
// is longer than a test runs.
const lostAfter = time.Hour

// clock is the time of hubs. A test moves it.
type clock struct{ ahead atomic.Int64 }

// pass moves the clock.
func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }

// now returns the time.
func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// moved configures a hub to run by the clock, by which a location is lost after lostAfter.
func (c *clock) moved(config *hub.Config) { config.Disconnected, config.Now = lostAfter, c.now }

// touch changes a Location, so that the hub reconciles it.
func (r *running) touch(name string) {
	r.t.Helper()
	r.patchLocation(name, fmt.Sprintf(`{"metadata":{"annotations":{"example.org/touched":"%d"}}}`, time.Now().UnixNano()))
}

// connected returns what is wrong unless location a is connected.
func (r *running) connected() string {
	r.t.Helper()
	if l := r.location("a"); !meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionConnected) {
		return "a is not connected: " + text(l.Status)
	}
	return ""
}

// loses waits until no hub has a session of a location, moves the clock by lostAfter, and waits
// until the location is disconnected.
func (r *running) loses(c *clock, name string) {
	r.t.Helper()
	r.eventually(func() string {
		if open := presence.SessionsOf(r.Table.Snapshot(), key.Location(name)); len(open) > 0 {
			return fmt.Sprintf("the sessions are %+v", open)
		}
		return ""
	})
	rounds := 0
	r.eventually(func() string {
		if rounds%100 == 0 { // a hub may notice the end of the session after the hour has passed
			c.pass(lostAfter)
		}
		rounds++
		r.touch(name)
		k := meta.FindStatusCondition(r.location(name).Status.Conditions, v1alpha1.ConditionConnected)
		if k == nil || k.Status != metav1.ConditionFalse || k.Reason != "Disconnected" {
			return fmt.Sprintf("Connected is %+v", k)
		}
		return ""
	})
}

// idle waits until the hub has nothing to do: the queues of its controllers are empty and the
// table has the same revision, at each of many looks in a row. It counts looks and not time, so
// that a machine that stands still does not look idle.
func (r *running) idle() {
	r.t.Helper()
	const rounds = 15
	last, unchanged := int64(-1), 0
	for unchanged < rounds {
		r.eventually(func() string {
			if err := r.WaitCommitted(limit.Context(r.t, "the table is current")); err != nil {
				return err.Error()
			}
			busy := "no controller has a queue"
			for name, length := range r.series() {
				if !strings.HasPrefix(name, "orrery_controller_queue") {
					continue
				}
				if busy = ""; !strings.HasSuffix(" "+length, " 0") {
					busy = name + " is " + length
					break
				}
			}
			now := r.Table.Rev()
			if busy != "" || now != last {
				last, unchanged = now, 0
				return fmt.Sprintf("revision %d, %s", now, busy)
			}
			unchanged++
			return ""
		})
		retry.Pause(r.t.Context(), 100*time.Millisecond) // a retry may be due a second after a failure
	}
}
