package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// fixture is a log with one space that may hold 1000 bytes in three objects.
type fixture struct {
	*testing.T
	*table.Writer
	usage  *Usage
	limits *Limits
}

func newFixture(t *testing.T) fixture {
	usage := NewUsage()
	f := fixture{T: t, Writer: table.New(table.Config{Observer: usage}), usage: usage}
	f.limits = New(f.Table, usage)
	f.put(key.Space("a").Key(), `{"spec":{"limits":{"objects":3,"bytes":"1000"}}}`)
	return f
}

func (f fixture) put(k, value string) (rev int64) {
	f.Helper()
	rev = f.Rev() + 1
	if err := f.Apply(rev, []table.Update{{Key: k, Value: []byte(value), CreateRev: rev, ModRev: rev}}); err != nil {
		f.Fatal(err)
	}
	return rev
}

func configMap(name string) string {
	return key.Object{Space: "a", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "default", Name: name}}.Key()
}

// object is a value of a size that begins with some text.
func object(metadata string, size int) string {
	head := `{"metadata":{` + metadata + `},"data":"`
	return head + strings.Repeat("x", size-len(head)-2) + `"}`
}

const (
	deleting = `"deletionTimestamp":"2026-01-01T00:00:00Z"`
	held     = `,"finalizers":["a","b"]`
)

// What is being written counts until the table shows it, or it fails.
func TestReserve(t *testing.T) {
	f := newFixture(t)
	reserve := func(name string, size int, bound Bound) (func(int64), error) {
		return f.limits.Reserve(configMap(name), []byte(object("", size)), bound)
	}
	first, err := reserve("one", 600, BySpace)
	if err != nil {
		t.Fatal(err)
	}
	var exceeded *ExceededError
	if _, err := reserve("two", 600, BySpace); !errors.As(err, &exceeded) || fmt.Sprint(exceeded.Limits) != "[bytes]" {
		t.Fatalf("two writes at once pass a limit: %v", err)
	}
	first(f.put(configMap("one"), object("", 600)))
	if got := f.usage.InSpace("a"); got != (Amount{Objects: 1, Bytes: 600}) {
		t.Errorf("the space holds %+v", got)
	}
	if e, err := f.limits.Exceeds(configMap("two"), 600); err != nil || e == nil {
		t.Errorf("it fits: %v, %v", e, err)
	}
	if e, err := f.limits.Exceeds(configMap("one"), 900); err != nil || e != nil {
		t.Errorf("what takes the place of the first does not fit: %v, %v", e, err)
	}
	other, err := reserve("two", 600, Unbound)
	if err != nil {
		t.Fatalf("what is not bound is refused: %v", err)
	}
	other(0) // not written
	if done, err := reserve("two", 400, BySpace); err != nil {
		t.Errorf("what was given up counts: %v", err)
	} else {
		done(0)
	}
}

// What takes the place of an object that goes meanwhile counts, though there was no more to count
// when it was asked for: the log was ahead of the table then.
func TestReserveInPlaceOfWhatGoes(t *testing.T) {
	f := newFixture(t)
	reserve := func(name string, size int) (func(int64), error) {
		return f.limits.Reserve(configMap(name), []byte(object("", size)), ByDefaults)
	}
	var exceeded *ExceededError
	full := func(what, limit string, size int) {
		t.Helper()
		if _, err := reserve("other", size); !errors.As(err, &exceeded) || fmt.Sprint(exceeded.Limits) != limit {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"one", "two", "three"} {
		f.put(configMap(name), object("", 300))
	}
	again, err := reserve("one", 300)
	if err != nil {
		t.Fatal(err)
	}
	rev := f.Rev() + 1
	if err := f.Apply(rev, []table.Update{{Key: configMap("one"), ModRev: rev}}); err != nil {
		t.Fatal(err)
	}
	full("it is gone, and written again", "[objects]", 100)
	again(f.put(configMap("one"), object("", 300)))
	full("it was written again", "[objects]", 100)

	larger, err := reserve("two", 300)
	if err != nil {
		t.Fatal(err)
	}
	f.put(configMap("two"), object("", 50))
	f.put(configMap("three"), object("", 50)) // of 1000 bytes there are 400, and 250 are pending
	f.put(key.Space("a").Key(), `{"spec":{"limits":{"objects":4,"bytes":"1000"}}}`)
	full("it is smaller, and written as it was", "[bytes]", 360)
	larger(0)
	done, err := reserve("other", 360)
	if err != nil {
		t.Fatalf("what was given up counts: %v", err)
	}
	done(0)
	if len(f.usage.writing) > 0 || f.usage.spaces["a"].pending != (Amount{}) {
		t.Errorf("nothing is written, and %v is kept, %+v is pending", f.usage.writing, f.usage.spaces["a"].pending)
	}
}

// An object that is being deleted may grow a little, in all.
func TestEffect(t *testing.T) {
	f := newFixture(t)
	k := configMap("one")
	check := func(name, value string, growing, ending bool) {
		t.Helper()
		if g, e := f.limits.Effect(k, []byte(value)); g != growing || e != ending {
			t.Errorf("%s: grows %v, ends %v; want %v, %v", name, g, e, growing, ending)
		}
	}
	check("created", object("", 600), true, false)
	f.put(k, object("", 600))
	check("as large as before", object("", 600), false, false)
	check("larger", object("", 601), true, false)
	check("marked", object(deleting+held, 601), true, true)
	check("marked and much larger", object(deleting+held, 601+endingSlack), true, false)
	f.put(k, object(deleting+held, 700))
	check("a little larger while it goes", object(deleting+held, 701), false, false)
	check("without one of its finalizers", object(deleting+`,"finalizers":["b"]`, 701), false, true)
	f.put(k, object(deleting+held, 700+endingSlack))
	check("once it has grown", object(deleting+held, 701+endingSlack), true, false)
}

// ofSpace is a ConfigMap of a space.
func ofSpace(s key.Space, name string) string {
	return key.Object{Space: s, Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "default", Name: name}}.Key()
}

// writes puts a value, and returns the limits that refuse it.
func (f fixture) writes(k, value string, bound Bound) *ExceededError {
	f.Helper()
	done, err := f.limits.Reserve(k, []byte(value), bound)
	if exceeded, is := errors.AsType[*ExceededError](err); is {
		return exceeded
	}
	if err != nil {
		f.Fatal(err)
	}
	done(f.put(k, value))
	return nil
}

// storedInLog counts the bytes of all keys and values anew.
func (f fixture) storedInLog() (all Stored) {
	f.Snapshot().Ascend("", func(row *table.Row) bool {
		class := &all.Objects
		if key.ClassOf(row.Key) != key.Objects {
			class = &all.Others
		}
		*class += int64(len(row.Key) + len(row.Value))
		return true
	})
	return all
}

// TestDefaultLimit: spaces without a limit of bytes hold a quarter of the log's quota each, and create
// objects while the log holds less than half of the quota, however many spaces there are. They can always
// write what makes nothing larger, and spaces with limits go on.
func TestDefaultLimit(t *testing.T) {
	const quota, size = 80_000, 100
	f := newFixture(t)
	f.limits.FollowQuota(func() int64 { return quota })
	spaces := []key.Space{"a", "b", "c", "d"}
	for _, s := range spaces {
		f.put(s.Key(), `{"spec":{}}`)
	}
	fill := func(s key.Space) (bytes int64) {
		for i := 0; ; i++ {
			if e := f.writes(ofSpace(s, fmt.Sprint(i)), object("", size), ByDefaults); e != nil {
				if fmt.Sprint(e.Limits) != "[bytes]" || !strings.Contains(e.Error(), "have an operator set spec.limits.bytes") {
					t.Fatal(e)
				}
				return f.usage.InSpace(s).Bytes
			}
			// Edits are history, and history does not count.
			if e := f.writes(ofSpace(s, fmt.Sprint(i)), object("", size-1), ByDefaults); e != nil {
				t.Fatal(e)
			}
			f.put(ofSpace(s, fmt.Sprint(i)), object("", size))
		}
	}
	if e := f.writes(ofSpace("d", "one"), object("", size), ByDefaults); e != nil {
		t.Fatal(e)
	}
	for _, s := range spaces[:3] {
		got := fill(s)
		if got > quota/4 || s == "a" && got < quota/4-size {
			t.Errorf("space %q holds %d bytes of a log of %d", s, got, quota)
		}
	}
	if got := f.storedInLog().Objects; got > quota/2+2*quota/64 || got < quota/2-2*size { // the third space is small
		t.Errorf("the log holds %d bytes of %d", got, quota)
	}
	if got, want := f.usage.all(), f.storedInLog(); got != want {
		t.Errorf("%+v is counted, %+v is stored", got, want)
	}

	if e := f.writes(ofSpace("d", "two"), object("", quota/64), ByDefaults); e == nil || !strings.Contains(e.Error(), "by the objects of all spaces") {
		t.Errorf("a space that is not small creates: %v", e)
	}
	if e := f.writes(ofSpace("d", "one"), object("", 5*size), ByDefaults); e != nil {
		t.Errorf("an object can't be changed because others create: %v", e)
	}
	if e := f.writes(ofSpace("d", "one"), object("", quota/8+5*size), ByDefaults); e == nil {
		t.Error("updates use bytes that other spaces need")
	}
	for _, s := range spaces[:2] {
		if e := f.writes(ofSpace(s, "0"), object("", size-1), ByDefaults); e != nil {
			t.Errorf("an update that makes nothing larger is refused: %v", e)
		}
	}
	if e := f.writes(ofSpace("d", "two"), object("", size), BySpace); e != nil {
		t.Errorf("what the hub returns is refused: %v", e)
	}
	f.put(key.Space("a").Key(), `{"spec":{"limits":{"bytes":"1Mi"}}}`)
	if e := f.writes(ofSpace("a", "more"), object("", quota/8), ByDefaults); e != nil {
		t.Errorf("the limit of the Space does not count: %v", e)
	}
	rev := f.Rev() + 1
	f.Reset(rev, []table.Update{{Key: key.Space("b").Key(), Value: []byte(`{}`), CreateRev: rev, ModRev: rev}})
	if got, want := f.usage.all(), f.storedInLog(); got != want {
		t.Errorf("after a reset %+v is counted, %+v is stored", got, want)
	}
}

// TestSmallSpacesCreate: spaces that are full, and reports, leave bytes for the first objects of others, but no
// end of small spaces fills the log.
func TestSmallSpacesCreate(t *testing.T) {
	const quota, size = 80_000, 100
	f := newFixture(t)
	f.limits.FollowQuota(func() int64 { return quota })
	fill := func(s key.Space) (refused *ExceededError) {
		f.put(s.Key(), `{"spec":{}}`)
		for i := 0; refused == nil; i++ {
			refused = f.writes(ofSpace(s, fmt.Sprint(i)), object("", size), ByDefaults)
		}
		return refused
	}
	report := func(location key.Location, bytes int) {
		o := key.Object{Space: "a", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "default", Name: "0"}}
		f.put(key.Report{Location: location, Origin: key.Placed, Object: o}.Key(), object("", bytes))
	}
	report("l", quota/8)
	for _, s := range []key.Space{"a", "b"} {
		_ = fill(s)
		if got := f.usage.InSpace(s).Bytes; s == "a" && got < quota/4-size || s == "b" && got < quota/16 {
			t.Errorf("space %q holds %d bytes of a log of %d", s, got, quota)
		}
	}
	_ = fill("c")
	if got := f.usage.InSpace("c").Bytes; got < quota/64-size || got > quota/64 {
		t.Errorf("a third space holds %d bytes, want a 64th of %d", got, quota)
	}
	for i := range 100 {
		_ = fill(key.Space(fmt.Sprint("d", i)))
	}
	if got := f.storedInLog().Objects; got > quota*5/8+100*60 {
		t.Errorf("the objects of all spaces take %d bytes of %d", got, quota)
	}
	f.put(key.Space("a").Key(), `{"spec":{"limits":{"bytes":"0"}}}`)
	for i := range 200 { // of which some exist
		rev := f.Rev() + 1
		if err := f.Apply(rev, []table.Update{{Key: ofSpace("a", fmt.Sprint(i)), ModRev: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	report("m", quota*5/8)
	if e := fill("e"); !strings.Contains(e.Error(), "by the objects and reports of all spaces") || f.usage.InSpace("e") != (Amount{}) {
		t.Errorf("with many reports a space holds %+v: %v", f.usage.InSpace("e"), e)
	}
	if got, want := f.usage.all(), f.storedInLog(); got != want {
		t.Errorf("%+v is counted, %+v is stored", got, want)
	}
}

// policy is the key of a Placement.
func policy(s key.Space, name string) string {
	return key.Object{Space: s, Identity: key.Identity{Resource: key.Placements, Name: name}}.Key()
}

// withTests is a Placement of one entry with so many tests.
func withTests(n int, more string) string {
	return `{"spec":{` + more + `"downsync":[{"labelSelectors":[{"matchExpressions":[` + strings.TrimSuffix(strings.Repeat(`{"key":"k","operator":"Exists"},`, n-1), ",") + `]}]}]}}`
}

// TestPolicyTests: the policies of a space have a budget of tests together, however small each of them is. A
// space that has more, from before there was a budget, keeps it and can have less.
func TestPolicyTests(t *testing.T) {
	f := newFixture(t)
	for _, s := range []key.Space{"a", "b", "old"} {
		f.put(s.Key(), `{"spec":{}}`)
	}
	for _, s := range []key.Space{"a", key.Root} {
		made := 0
		for ; made <= selectors.MaxSpaceTests; made += 32 {
			if e := f.writes(policy(s, fmt.Sprint(made)), withTests(32, ""), ByDefaults); e != nil {
				if fmt.Sprint(e.Limits) != "[policyTests]" || !strings.Contains(e.Error(), "limited: policyTests=8192") || !strings.Contains(e.Error(), "have an operator set spec.limits.policyTests") {
					t.Errorf("%q: %v", s, e)
				}
				break
			}
		}
		if made != selectors.MaxSpaceTests || f.usage.InSpace(s).PolicyTests != int64(made) {
			t.Errorf("%q: %d tests were written, %d are counted", s, made, f.usage.InSpace(s).PolicyTests)
		}
		if e := f.writes(policy(s, "0"), withTests(32, `"suspend":true,`), ByDefaults); e != nil {
			t.Errorf("%q: an update that adds no test is refused: %v", s, e)
		}
	}
	if e := f.writes(policy("b", "one"), withTests(32, ""), ByDefaults); e != nil {
		t.Errorf("another space: %v", e)
	}
	first, err := f.limits.Reserve(policy("b", "two"), []byte(withTests(5000, "")), ByDefaults)
	if err != nil {
		t.Fatal(err)
	}
	if e := f.writes(policy("b", "three"), withTests(5000, ""), ByDefaults); e == nil {
		t.Error("two writes at once pass the budget")
	}
	first(0)

	f.put(policy("old", "large"), withTests(10_000, "")) // by an older hub
	for what, c := range seeds.Ordered(map[string]struct {
		name    string
		tests   int
		refused bool
	}{
		"a new one": {"new", 1, true}, "more": {"large", 10_001, true}, "as many": {"large", 10_000, false}, "fewer": {"large", 9_000, false},
	}) {
		if e := f.writes(policy("old", c.name), withTests(c.tests, ""), ByDefaults); (e != nil) != c.refused {
			t.Errorf("%s in a space above the budget: %v", what, e)
		}
		f.put(policy("old", "large"), withTests(10_000, ""))
	}
	f.put(key.Space("old").Key(), `{"spec":{"limits":{"policyTests":20000}}}`)
	if e := f.writes(policy("old", "new"), withTests(5000, ""), ByDefaults); e != nil {
		t.Errorf("the limit of the Space does not count: %v", e)
	}
}
