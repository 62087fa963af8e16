package table

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// subscriber is a reader that polls when it likes.
type subscriber struct {
	topics []modelTopic
	sub    *Subscription
	at     int64 // it has seen everything up to here
	// premises are keys whose values have to suit; judged is when that was last looked at.
	premises []string
	judged   int64
	ended    bool
	// of is the premise that did not hold, from first on, when the subscriber only asked;
	// empty: it did not, or all held.
	first int64
	of    string
	// pos is what must still be in the window when it lags.
	lagging bool
	pos     int64
	queued  []int64
}

// machine drives a table and the model through the same random life.
type machine struct {
	table    *Writer
	model    *model
	subs     []*subscriber
	observed int64
}

func (m *machine) Reset() { m.observed = -1 }

func (m *machine) Observe(rev int64, _ []Change) { m.observed = rev }

var modelKeys = []string{
	policyKey,
	"o/s1/core/configmaps/default/a", "o/s1/core/configmaps/default/b", "o/s1/core/namespaces/default",
	"o/s1/core/events/default/a", "o/s1/coordination.k8s.io/leases/default/a",
	"o/s1/apps/deployments/default/a", "o/s2/core/configmaps/default/a", "o/s2/core/configmapsx/default/a",
	"o/s10/core/configmaps/default/a",
	"r/l1/s1/placed/core/configmaps/default/a", "r/l1/s1/born/core/configmaps/default/a", "r/l2/s1/owned/core/configmaps/default/a",
	"r/l1/s2/placed/core/configmapsx/default/a", "r/l10/s1/placed/core/configmaps/default/a", "m/1",
}

func modelTopics() []modelTopic {
	topics := []modelTopic{
		topicAcross(key.Resource{Group: "core", Resource: "configmaps"}),
		topicAcross(key.Resource{Group: "core", Resource: "events"}),
		topicAcross(key.Resource{Group: "core", Resource: "namespaces"}),
		topicOf("l1"), topicOf("l2"), topicOf("l3"),
		topicReports("", ""), topicReports("l1", ""), topicReports("", "s1"), topicReports("l1", "s1"), topicReports("l2", "s2"),
	}
	topics = append(topics, shelfTopics()...)
	seen := map[string]bool{}
	for _, k := range modelKeys {
		topics = append(topics, topicAt(k))
		for i := range len(k) {
			if k[i] == '/' && !seen[k[:i+1]] {
				seen[k[:i+1]] = true
				topics = append(topics, topicUnder(k[:i+1]))
			}
		}
	}
	return topics
}

func drawUpdates(t *rapid.T, rev int64, rows map[string]modelRow) []Update {
	var updates []Update
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom(modelKeys), 0, 5, rapid.ID).Draw(t, "keys")
	for _, k := range keys {
		u := Update{Key: k, CreateRev: rev, ModRev: rev}
		if row, ok := rows[k]; ok {
			u.CreateRev = row.createRev
		}
		if rapid.IntRange(0, 3).Draw(t, "delete") > 0 {
			u.Value = fmt.Appendf(nil, "%s;%d", rapid.SampledFrom([]string{"", "l1", "l2", "l1,l2", "l3"}).Draw(t, "names"), rev)
		}
		updates = append(updates, u)
	}
	return updates
}

func (m *machine) apply(t *rapid.T) {
	rev := m.model.rev + rapid.Int64Range(1, 3).Draw(t, "ahead")
	updates := drawUpdates(t, rev, m.model.rows)
	if err := m.table.Apply(rev, updates); err != nil {
		t.Fatal(err)
	}
	m.model.apply(rev, updates)
	if m.observed != rev {
		t.Fatalf("observer was shown revision %d, want %d", m.observed, rev)
	}
	step := m.model.history[len(m.model.history)-1]
	for _, s := range m.subs {
		s.offered(step)
	}
}

func (s *subscriber) offered(step modelStep) {
	concerned := false
	for k, c := range step.changes {
		concerned = concerned || s.concerns(k, c)
	}
	if !concerned || s.lagging {
		return
	}
	if len(s.queued) == queueLimit {
		s.lagging, s.pos, s.queued = true, s.queued[0]-1, nil
		return
	}
	s.queued = append(s.queued, step.rev)
}

func (s *subscriber) concerns(k string, c modelChange) bool {
	return slices.ContainsFunc(s.topics, func(t modelTopic) bool { return t.concerns(k, c) })
}

// suits is the rule of premises in the tests: a value of an odd revision does, nothing does not.
func suits(row *Row) bool { return row != nil && row.ModRev%2 == 1 }

var errPremise = errors.New("does not suit")

func premisesOf(keys []string) (all []Premise) {
	for _, k := range keys {
		all = append(all, Premise{Key: k, Holds: suits, End: fmt.Errorf("%s %w", k, errPremise)})
	}
	return all
}

// broken is the first revision at which a premise no longer held as far as a
// subscriber can tell, which looks at the last value alone, and the key.
func (m *model) broken(premises []string, judged int64) (rev int64, of string) {
	for _, k := range premises {
		if now, ok := m.rows[k]; ok && now.modRev%2 == 1 {
			continue
		}
		for _, step := range m.history {
			if _, changed := step.changes[k]; changed && step.rev > judged && (of == "" || step.rev < rev) {
				rev, of = step.rev, k
			}
		}
	}
	return rev, of
}

func (m *machine) progress(t *rapid.T) {
	m.model.rev += rapid.Int64Range(0, 2).Draw(t, "ahead")
	m.table.Progress(m.model.rev)
}

func (m *machine) stale(t *rapid.T) {
	if err := m.table.Apply(m.model.rev, nil); err == nil {
		t.Fatal("a revision was applied twice")
	}
}

func (m *machine) reset(t *rapid.T) {
	rev := m.model.rev + rapid.Int64Range(0, 3).Draw(t, "ahead")
	state := drawUpdates(t, rev, nil)
	m.table.Reset(rev, state)
	m.model = &model{rows: map[string]modelRow{}, steps: m.model.steps}
	m.model.apply(rev, state)
	m.model.history = nil
	m.model.kept = [windowCount][]int64{}
	for i := range m.model.floors {
		m.model.floors[i] = rev
	}
	for _, s := range m.subs {
		if _, _, err := s.sub.Poll(); !errors.Is(err, ErrExpired) && !s.ended && s.of == "" {
			t.Fatalf("poll of %v after a reset: %v", s.topics, err)
		}
		s.sub.Close()
	}
	m.subs = nil
}

func (m *machine) subscribe(t *rapid.T) {
	s := &subscriber{lagging: true}
	s.topics = rapid.SliceOfN(rapid.SampledFrom(modelTopics()), 1, 3).Draw(t, "topics")
	s.premises = rapid.SliceOfNDistinct(rapid.SampledFrom(modelKeys), 0, 2, rapid.ID).Draw(t, "premises")
	after := rapid.Int64Range(max(0, m.model.rev-30), m.model.rev+1).Draw(t, "after")
	floor := m.model.floor(s.topics)
	var want error
	switch {
	case after > m.model.rev:
		want = ErrFuture
	case after < floor:
		want = ErrExpired
	case slices.ContainsFunc(s.premises, func(k string) bool { now, ok := m.model.rows[k]; return !ok || now.modRev%2 == 0 }):
		want = errPremise
	}
	var topics []Topic
	for _, topic := range s.topics {
		topics = append(topics, topic.Topic)
	}
	if got := m.table.Floor(topics...); got != floor {
		t.Fatalf("floor of %v is %d, want %d", topics, got, floor)
	}
	var err error
	s.sub, err = m.table.Subscribe(after, premisesOf(s.premises), topics...)
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		t.Fatalf("subscribe to %v after %d at %d, floor %d: %v, want %v", topics, after, m.model.rev, floor, err, want)
	}
	if err == nil {
		s.at, s.pos, s.judged = after, after, m.model.rev
		m.subs = append(m.subs, s)
	}
}

func (m *machine) poll(t *rapid.T) {
	if len(m.subs) == 0 {
		m.subscribe(t)
		return
	}
	i := rapid.IntRange(0, len(m.subs)-1).Draw(t, "subscriber")
	s := m.subs[i]
	if end := m.pollOne(t, s); end != nil {
		if _, _, err := s.sub.Poll(); !errors.Is(err, end) {
			t.Fatalf("poll after the end by %v: %v", end, err)
		}
		s.sub.Close()
		m.subs = slices.Delete(m.subs, i, i+1)
	}
}

// pollOne compares what a poll returns with the model. It returns why the subscription
// has ended.
func (m *machine) pollOne(t *rapid.T, s *subscriber) (end error) {
	first, of := m.model.broken(s.premises, s.judged)
	if s.of != "" {
		first, of = s.first, s.of
	}
	asked := !s.ended && of != "" && rapid.IntRange(0, 4).Draw(t, "only ask") == 0
	if asked {
		if err := s.sub.Ended(); err == nil || err.Error() != of+" "+errPremise.Error() {
			t.Fatalf("ended by %v, want %s", err, of)
		}
		s.first, s.of = first, of
		return nil
	}
	select {
	case <-s.sub.Wake():
	default:
	}
	steps, upTo, err := s.sub.Poll()
	if s.ended {
		if !errors.Is(err, errPremise) {
			t.Fatalf("after the last steps: %v", err)
		}
		return errPremise
	}
	if expired := s.lagging && s.pos < m.model.floor(s.topics); expired || errors.Is(err, ErrExpired) {
		if expired && s.of != "" && errors.Is(err, errPremise) {
			return errPremise
		}
		if !expired || !errors.Is(err, ErrExpired) {
			t.Fatalf("poll of %v at %d, floor %d: %v", s.topics, s.pos, m.model.floor(s.topics), err)
		}
		return ErrExpired
	}
	reached := m.model.rev
	if of != "" {
		reached = first - 1
	}
	want := m.model.since(s, s.at, reached)
	if of != "" && len(want) == 0 {
		if err == nil || err.Error() != of+" "+errPremise.Error() {
			t.Fatalf("ended by %v, want %s", err, of)
		}
		return errPremise
	}
	var got []string
	for _, step := range steps {
		got = append(got, stepText(step))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v after %d:\n got %q, %v\nwant %q", s.topics, s.at, got, err, want)
	}
	if upTo != reached {
		t.Fatalf("poll reached %d, want %d", upTo, reached)
	}
	s.at, s.judged, s.lagging, s.queued, s.ended = upTo, m.model.rev, false, nil, of != ""
	if s.ended {
		select {
		case <-s.sub.Wake():
		default:
			t.Fatal("nothing wakes who is to hear of the end")
		}
	}
	return nil
}

func (m *machine) drop(t *rapid.T) {
	if len(m.subs) == 0 {
		m.subscribe(t)
		return
	}
	i := rapid.IntRange(0, len(m.subs)-1).Draw(t, "subscriber")
	m.subs[i].sub.Close()
	m.subs = slices.Delete(m.subs, i, i+1)
}

// check compares all reads with the model.
func (m *machine) check(t *rapid.T) {
	snap := m.table.Snapshot()
	if snap.Rev != m.model.rev || m.table.Rev() != m.model.rev {
		t.Fatalf("revision %d, snapshot %d, want %d", m.table.Rev(), snap.Rev, m.model.rev)
	}
	for _, k := range modelKeys {
		var want *modelRow
		if row, ok := m.model.rows[k]; ok {
			want = &row
		}
		got, rev := m.table.Get(k)
		if rowText(got) != want.String() || rowText(snap.Get(k)) != want.String() || rev != m.model.rev {
			t.Fatalf("%s: get %s at %d, snapshot %s, want %s", k, rowText(got), rev, rowText(snap.Get(k)), want)
		}
	}
	for _, prefix := range []string{"", "o/", "o/s1/", "o/s1/core/configmaps/", "r/l1/", "x/"} {
		var got []string
		snap.Ascend(prefix, func(r *Row) bool { got = append(got, r.Key); return true })
		want := slices.Sorted(maps.Keys(m.model.rows))
		want = slices.DeleteFunc(want, func(k string) bool { return !strings.HasPrefix(k, prefix) })
		if !slices.Equal(got, want) {
			t.Fatalf("below %q: %q, want %q", prefix, got, want)
		}
	}
	for _, member := range []string{"l1", "l2", "l3", "l4"} {
		rows, rev := m.table.Members(key.Location(member))
		var got, want []string
		for _, r := range rows {
			got = append(got, r.Key+" "+rowText(r))
		}
		for k, row := range m.model.rows {
			if slices.Contains(strings.Split(row.members, ","), member) {
				want = append(want, k+" "+row.String())
			}
		}
		slices.Sort(want)
		if !slices.Equal(got, want) || rev != m.model.rev {
			t.Fatalf("members of %s at %d: %q, want %q", member, rev, got, want)
		}
	}
	m.checkShelves(t)
	heard := map[Topic]bool{}
	for _, s := range m.subs {
		s.sub.each(func(topic Topic) { heard[topic] = true })
	}
	if len(m.table.subs) != len(heard) {
		t.Fatalf("%d topics for %d that are heard", len(m.table.subs), len(heard))
	}
}

// TestTableEqualsModel compares everything that a table answers and delivers
// with a model, over random lives.
func TestTableEqualsModel(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		m := &machine{model: &model{rows: map[string]modelRow{}, steps: rapid.IntRange(1, 60).Draw(t, "window")}}
		d, shower := &testDeriver{}, &testShower{}
		d.Reset()
		shower.Reset()
		m.table = New(Config{Deriver: d, Shower: shower, Observer: m, WindowSteps: m.model.steps, WindowBytes: 1 << 30})
		actions := map[string]func(*rapid.T){
			"": m.check, "apply": m.apply, "progress": m.progress, "stale": m.stale, "subscribe": m.subscribe, "poll": m.poll, "drop": m.drop,
		}
		actions["burst"] = func(t *rapid.T) {
			for range rapid.IntRange(1, 30).Draw(t, "length") {
				m.apply(t)
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "with resets") == 0 {
			actions["reset"] = m.reset
		}
		t.Repeat(actions)
	})
}

// TestSnapshotStays checks that a snapshot does not move with the table.
func TestSnapshotStays(t *testing.T) {
	table := New(Config{WindowSteps: 10, WindowBytes: 1 << 20})
	apply := func(rev int64, k, value string) {
		t.Helper()
		if err := table.Apply(rev, []Update{{Key: k, Value: []byte(value), CreateRev: rev, ModRev: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(500) {
		apply(i+1, fmt.Sprintf("o/s/core/configmaps/ns/%03d", i), "{}")
	}
	snap := table.Snapshot()
	for i := range int64(500) {
		apply(i+501, fmt.Sprintf("o/s/core/configmaps/ns/%03d", (i*7)%500), `{"metadata":{}}`)
	}
	n := 0
	snap.AscendFrom("o/s/core/configmaps/ns/100", func(r *Row) bool {
		if string(r.Value) != "{}" {
			t.Fatalf("%s is %s in a snapshot from before", r.Key, r.Value)
		}
		n++
		return true
	})
	if n != 400 || snap.Rev != 500 {
		t.Fatalf("%d rows at %d, want 400 at 500", n, snap.Rev)
	}
	if cmp.Compare(table.Snapshot().Rev, snap.Rev) <= 0 {
		t.Fatal("the table has not moved")
	}
}

// TestTopicsKeepToTheirWindow checks that a topic beside one of Events has no Lease of its
// prefix: neither of those that are offered nor of those that are read from the window.
func TestTopicsKeepToTheirWindow(t *testing.T) {
	table := New(Config{WindowSteps: 10, WindowBytes: 1 << 20})
	lease := func(rev int64) {
		t.Helper()
		k := "o/s1/coordination.k8s.io/leases/default/a"
		if err := table.Apply(rev, []Update{{Key: k, Value: []byte("{}"), CreateRev: 1, ModRev: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	lease(1)
	sub, err := table.Subscribe(0, nil, Under("o/"), AcrossSpaces(key.Resource{Group: "core", Resource: "events"}))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for rev := int64(2); rev < 4; rev++ {
		if steps, upTo, err := sub.Poll(); err != nil || len(steps) > 0 || upTo != rev-1 {
			t.Errorf("poll: %v up to %d, %v", steps, upTo, err)
		}
		lease(rev)
	}
}
