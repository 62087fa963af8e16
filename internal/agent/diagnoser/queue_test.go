package diagnoser

import (
	"fmt"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

// simulation runs the loop of Diagnoser.Run by a clock of its own. A diagnosis takes no time.
type simulation struct {
	queue
	now time.Time
	// times has the times of the diagnoses of each object since the start.
	times map[string][]time.Duration
	start time.Time
}

func newSimulation() *simulation {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return &simulation{queue: newQueue(), now: start, start: start, times: map[string][]time.Duration{}}
}

// add adds the objects of a space with the numbers from first to below end.
func (m *simulation) add(space key.Space, first, end int) {
	for i := first; i < end; i++ {
		m.set(subject{id: fmt.Sprintf("%s/%05d", space, i), space: space, uid: "u"}, m.now)
	}
}

// run runs the loop for a duration.
func (m *simulation) run(d time.Duration) {
	end := m.now.Add(d)
	for m.now.Before(end) {
		s, wait, ok := m.next(m.now)
		switch {
		case !ok:
			m.now = end
		case wait > 0:
			m.now = m.now.Add(min(wait, end.Sub(m.now)))
		default:
			m.times[s.id] = append(m.times[s.id], m.now.Sub(m.start))
			m.done(s, m.now)
			m.now = m.now.Add(pause)
		}
	}
}

// TestBusySpace: a space with many unhealthy objects delays the first and the repeated diagnoses of another space by a
// few seconds only, also just after a restart, when all objects are due at the same time.
func TestBusySpace(t *testing.T) {
	for _, many := range []int{400, 2 * maxQueued} {
		m := newSimulation()
		m.add("alpha", 0, many)
		m.run(10 * time.Minute)
		m.add("beta", 0, 1)
		added := m.now.Sub(m.start)
		m.run(10 * time.Minute)
		times := m.times["beta/00000"]
		if len(times) == 0 || times[0]-added > unhealthyFor+3*pause {
			t.Fatalf("%d others: the first diagnosis of another space is at %v, after %s", many, times, added)
		}
		if want := 8; len(times) < want {
			t.Errorf("%d others: %d diagnoses in ten minutes, want %d: %v", many, len(times), want, times)
		}

		m = newSimulation()
		m.add("alpha", 0, many)
		m.add("beta", 0, 1)
		m.run(time.Minute)
		if times := m.times["beta/00000"]; len(times) == 0 || times[0] > unhealthyFor+3*pause {
			t.Errorf("%d others: the first diagnosis after a restart is at %v", many, times)
		}
	}
}

// TestManySpaces: each space has its turn, and a space that leaves the queue and comes back does not overtake the others.
func TestManySpaces(t *testing.T) {
	m := newSimulation()
	for i := range 20 {
		m.add(key.Space(fmt.Sprint("space", i)), 0, 50)
	}
	m.run(unhealthyFor + 100*pause)
	for i := range 20 {
		diagnosed := 0
		for id := range m.times {
			if m.all[id].space == key.Space(fmt.Sprint("space", i)) {
				diagnosed++
			}
		}
		if diagnosed != 5 {
			t.Errorf("%d diagnoses of space %d, want 5", diagnosed, i)
		}
	}
	m = newSimulation()
	m.add("alpha", 0, 100)
	for i := range 60 { // another object each time: the space has none in between
		m.add("beta", i, i+1)
		m.run(10 * time.Second)
		m.remove(fmt.Sprintf("beta/%05d", i))
	}
	for i := range 100 {
		if id := fmt.Sprintf("alpha/%05d", i); len(m.times[id]) == 0 {
			t.Errorf("%s was not diagnosed", id)
		}
	}
}

// TestFirstDiagnoses: in one space, each object has its first diagnosis before the others have further ones, and the
// interval of repeats grows so that they leave half of the time.
func TestFirstDiagnoses(t *testing.T) {
	const many = 1000
	m := newSimulation()
	m.add("alpha", 0, many)
	m.run(unhealthyFor + many*pause)
	if len(m.times) != many {
		t.Errorf("%d of %d objects were diagnosed in as many seconds", len(m.times), many)
	}
	m.run(3 * time.Hour)
	before := total(m.times)
	m.run(2 * many * perRepeat)
	if n := total(m.times) - before; n > 2*many {
		t.Errorf("%d diagnoses in %s, want half of the time for them", n, 2*many*perRepeat)
	}
	for id, times := range m.times {
		if last := times[len(times)-1]; m.now.Sub(m.start)-last > 45*time.Minute {
			t.Fatalf("the last diagnosis of %s is at %s", id, last)
		}
	}
}

func total(all map[string][]time.Duration) (n int) {
	for _, times := range all {
		n += len(times)
	}
	return n
}

// TestFullSpace: a space has at most maxQueued objects in the queue, and never keeps those of others out. An object that
// leaves makes room.
func TestFullSpace(t *testing.T) {
	m := newSimulation()
	m.add("alpha", 0, 2*maxQueued)
	m.add("beta", 0, 1)
	if m.all["beta/00000"] == nil || len(m.all) != maxQueued+1 {
		t.Errorf("%d objects in the queue; that of another space: %v", len(m.all), m.all["beta/00000"])
	}
	m.remove("alpha/00000")
	m.add("alpha", 2*maxQueued, 2*maxQueued+2)
	if len(m.all) != maxQueued+1 {
		t.Errorf("%d objects in the queue", len(m.all))
	}
	m.set(subject{id: "alpha/00001", space: "beta", uid: "u"}, m.now) // the object is of another space now
	m.add("alpha", 3*maxQueued, 3*maxQueued+2)
	if len(m.all) != maxQueued+2 {
		t.Errorf("%d objects in the queue after one has changed its space", len(m.all))
	}
	for id := range m.all {
		m.remove(id)
	}
	if _, _, ok := m.next(m.now); ok {
		t.Error("an empty queue has a subject")
	}
}
