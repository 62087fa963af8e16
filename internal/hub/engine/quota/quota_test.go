package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
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
	if got := f.usage.Of("a"); got != (Amount{Objects: 1, Bytes: 600}) {
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

// TestDefaultLimit: a space without a limit of bytes may hold three times what the log has free, so it can't
// fill the log; a limit that its Space sets counts instead, and a log without room refuses by itself.
func TestDefaultLimit(t *testing.T) {
	f := newFixture(t)
	f.put(key.Space("a").Key(), `{"spec":{"limits":{"objects":100}}}`)
	free := int64(1000)
	f.limits.Follow(func() int64 { return free })
	fill := func() (bytes int64) {
		for i := range 100 {
			name := configMap(fmt.Sprint("x", f.Rev(), "-", i))
			done, err := f.limits.Reserve(name, []byte(object("", 100)), ByDefaults)
			if err != nil {
				var exceeded *ExceededError
				if !errors.As(err, &exceeded) || fmt.Sprint(exceeded.Limits) != "[bytes]" || !strings.Contains(err.Error(), "have an operator set spec.limits.bytes") {
					t.Fatal(err)
				}
				return bytes
			}
			done(f.put(name, object("", 100)))
			bytes, free = bytes+100, free-100
		}
		return bytes
	}
	if got := fill(); got < 700 || got > 800 {
		t.Errorf("a space alone holds %d of 1000 bytes", got)
	}
	if done, err := f.limits.Reserve(configMap("y"), []byte(object("", 100)), ByDefaults); err == nil {
		t.Error("more fits")
		done(0)
	}
	if done, err := f.limits.Reserve(configMap("y"), []byte(object("", 100)), BySpace); err != nil {
		t.Errorf("a status that comes back is refused: %v", err)
	} else {
		done(0)
	}
	if done, err := f.limits.Reserve(configMap("y"), []byte(object("", int(free)+100)), ByDefaults); err != nil {
		t.Errorf("the log refuses what it has no room for, not the limit: %v", err)
	} else {
		done(0)
	}
	f.put(key.Space("a").Key(), `{"spec":{"limits":{"bytes":"1Mi"}}}`)
	if done, err := f.limits.Reserve(configMap("y"), []byte(object("", 100)), ByDefaults); err != nil {
		t.Errorf("the limit of the Space counts: %v", err)
	} else {
		done(0)
	}
}
