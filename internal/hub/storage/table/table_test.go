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

// subscriber is a reader that polls at random times.
type subscriber struct {
	topics []modelTopic
	sub    *Subscription
	seen   int64 // it has received all changes up to this revision
	// conditions are keys whose values must be suitable; checked is the revision of the last check.
	conditions []string
	checked    int64
	ended      bool
	// broken is the condition that Ended has reported, and first the revision at which it broke;
	// broken is empty if there is none.
	first  int64
	broken string
	// pos is the revision after which the window must have all steps if the subscriber lags.
	lagging bool
	pos     int64
	queued  []int64
}

// machine makes the same random changes to a table and the model.
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
		topicOfResource(key.Resource{Group: "core", Resource: "configmaps"}),
		topicOfResource(key.Resource{Group: "core", Resource: "events"}),
		topicOfResource(key.Resource{Group: "core", Resource: "namespaces"}),
		topicOfLocation("l1"), topicOfLocation("l2"), topicOfLocation("l3"),
		topicOfReports("", ""), topicOfReports("l1", ""), topicOfReports("", "s1"), topicOfReports("l1", "s1"), topicOfReports("l2", "s2"),
	}
	topics = append(topics, viewTopics()...)
	seen := map[string]bool{}
	for _, k := range modelKeys {
		topics = append(topics, topicOfKey(k))
		for i := range len(k) {
			if k[i] == '/' && !seen[k[:i+1]] {
				seen[k[:i+1]] = true
				topics = append(topics, topicOfPrefix(k[:i+1]))
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
	matched := false
	for k, c := range step.changes {
		matched = matched || s.matches(k, c)
	}
	if !matched || s.lagging {
		return
	}
	if len(s.queued) == queueLimit {
		s.lagging, s.pos, s.queued = true, s.queued[0]-1, nil
		return
	}
	s.queued = append(s.queued, step.rev)
}

func (s *subscriber) matches(k string, c modelChange) bool {
	return slices.ContainsFunc(s.topics, func(t modelTopic) bool { return t.matches(k, c) })
}

// suits reports whether a row meets the conditions of the tests: it must exist at an odd revision.
func suits(row *Row) bool { return row != nil && row.ModRev%2 == 1 }

var errCondition = errors.New("does not suit")

func conditionsOf(keys []string) (all []Condition) {
	for _, k := range keys {
		all = append(all, Condition{Key: k, IsMet: suits, End: fmt.Errorf("%s %w", k, errCondition)})
	}
	return all
}

// broken returns the first revision at which a condition no longer held, and its key. As subscribers do,
// it checks only the newest values, and considers only revisions after the last check.
func (m *model) broken(conditions []string, checked int64) (rev int64, condition string) {
	for _, k := range conditions {
		if now, ok := m.rows[k]; ok && now.modRev%2 == 1 {
			continue
		}
		for _, step := range m.history {
			if _, changed := step.changes[k]; changed && step.rev > checked && (condition == "" || step.rev < rev) {
				rev, condition = step.rev, k
			}
		}
	}
	return rev, condition
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
		if _, _, err := s.sub.Poll(); !errors.Is(err, ErrExpired) && !s.ended && s.broken == "" {
			t.Fatalf("poll of %v after a reset: %v", s.topics, err)
		}
		s.sub.Close()
	}
	m.subs = nil
}

func (m *machine) subscribe(t *rapid.T) {
	s := &subscriber{lagging: true}
	s.topics = rapid.SliceOfN(rapid.SampledFrom(modelTopics()), 1, 3).Draw(t, "topics")
	s.conditions = rapid.SliceOfNDistinct(rapid.SampledFrom(modelKeys), 0, 2, rapid.ID).Draw(t, "conditions")
	after := rapid.Int64Range(max(0, m.model.rev-30), m.model.rev+1).Draw(t, "after")
	floor := m.model.floor(s.topics)
	var want error
	switch {
	case after > m.model.rev:
		want = ErrFuture
	case after < floor:
		want = ErrExpired
	case slices.ContainsFunc(s.conditions, func(k string) bool { now, ok := m.model.rows[k]; return !ok || now.modRev%2 == 0 }):
		want = errCondition
	}
	var topics []Topic
	for _, topic := range s.topics {
		topics = append(topics, topic.Topic)
	}
	if got := m.table.Floor(topics...); got != floor {
		t.Fatalf("floor of %v is %d, want %d", topics, got, floor)
	}
	var err error
	s.sub, err = m.table.Subscribe(after, conditionsOf(s.conditions), topics...)
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		t.Fatalf("subscribe to %v after %d at %d, floor %d: %v, want %v", topics, after, m.model.rev, floor, err, want)
	}
	if err == nil {
		s.seen, s.pos, s.checked = after, after, m.model.rev
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

// pollOne compares the result of Poll with the model. It returns the error with which the subscription
// has ended.
func (m *machine) pollOne(t *rapid.T, s *subscriber) (end error) {
	first, broken := m.model.broken(s.conditions, s.checked)
	if s.broken != "" {
		first, broken = s.first, s.broken
	}
	callsEnded := !s.ended && broken != "" && rapid.IntRange(0, 4).Draw(t, "only call Ended") == 0
	if callsEnded {
		if err := s.sub.Ended(); err == nil || err.Error() != broken+" "+errCondition.Error() {
			t.Fatalf("ended by %v, want %s", err, broken)
		}
		s.first, s.broken = first, broken
		return nil
	}
	select {
	case <-s.sub.Wake():
	default:
	}
	steps, upTo, err := s.sub.Poll()
	if s.ended {
		if !errors.Is(err, errCondition) {
			t.Fatalf("after the last steps: %v", err)
		}
		return errCondition
	}
	if expired := s.lagging && s.pos < m.model.floor(s.topics); expired || errors.Is(err, ErrExpired) {
		if expired && s.broken != "" && errors.Is(err, errCondition) {
			return errCondition
		}
		if !expired || !errors.Is(err, ErrExpired) {
			t.Fatalf("poll of %v at %d, floor %d: %v", s.topics, s.pos, m.model.floor(s.topics), err)
		}
		return ErrExpired
	}
	reached := m.model.rev
	if broken != "" {
		reached = first - 1
	}
	want := m.model.since(s, s.seen, reached)
	if broken != "" && len(want) == 0 {
		if err == nil || err.Error() != broken+" "+errCondition.Error() {
			t.Fatalf("ended by %v, want %s", err, broken)
		}
		return errCondition
	}
	var got []string
	for _, step := range steps {
		got = append(got, stepText(step))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v after %d:\n got %q, %v\nwant %q", s.topics, s.seen, got, err, want)
	}
	if upTo != reached {
		t.Fatalf("poll reached %d, want %d", upTo, reached)
	}
	s.seen, s.checked, s.lagging, s.queued, s.ended = upTo, m.model.rev, false, nil, broken != ""
	if s.ended {
		select {
		case <-s.sub.Wake():
		default:
			t.Fatal("the subscriber is not woken for the end")
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

// check compares the results of all reads with the model.
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
	m.checkViews(t)
	subscribed := map[Topic]bool{}
	for _, s := range m.subs {
		s.sub.each(func(topic Topic) { subscribed[topic] = true })
	}
	if len(m.table.subs) != len(subscribed) {
		t.Fatalf("%d topics in the table, %d in subscriptions", len(m.table.subs), len(subscribed))
	}
}

// TestTableEqualsModel compares all reads and subscriptions of a table with a model, over random
// sequences of changes.
func TestTableEqualsModel(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		m := &machine{model: &model{rows: map[string]modelRow{}, steps: rapid.IntRange(1, 60).Draw(t, "window")}}
		d, exposer := &testDeriver{}, &testExposer{}
		d.Reset()
		exposer.Reset()
		m.table = New(Config{Deriver: d, Exposer: exposer, Observer: m, WindowSteps: m.model.steps, WindowBytes: 1 << 30})
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

// TestSnapshotStays shows that later changes of the table do not change a snapshot.
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

// TestTopicsKeepToTheirWindow shows that a subscription to a prefix and to Events omits the Leases below
// the prefix, both from offers and from the window.
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
	sub, err := table.Subscribe(0, nil, PrefixTopic("o/"), ResourceTopic(key.Resource{Group: "core", Resource: "events"}))
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
