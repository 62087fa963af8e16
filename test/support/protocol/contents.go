package protocol

import (
	"encoding/json"
	"fmt"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// contentCases are requirements on the desired content of a location.
func contentCases() []hubCase {
	return []hubCase{
		{"FromNothing", fromNothing},
		{"Changes", changes},
		{"Causes", causes},
		{"Policies", policies},
		{"Holds", keepsHeld},
		{"Impersonates", impersonates},
		{"ImpersonatesNot", impersonatesNot},
		{"Admits", admits},
		{"Conflicts", conflicts},
		{"Confirmed", confirmed},
		{"Walk", walks},
		{"WalkInPages", walkInPages},
		{"Fetch", fetches},
		{"FetchOfWhatIsLarge", fetchesLarge},
	}
}

// fromNothing: the hello of an agent's first session describes the content, and a comparison finds it.
func fromNothing(e *exam) {
	if s := e.open(); s.hello.Count != 0 || !s.hello.Root.IsZero() || !s.hello.Continuous || s.hello.Resumed {
		e.Errorf("the hello of an empty content is %+v", s.hello)
	}
	e.Desire("one", "1")
	e.Desire("two", "2")
	s := e.open()
	if s.hello.Count != 2 || !s.hello.Continuous || s.hello.Resumed {
		e.Errorf("the hello is %+v", s.hello)
	}
	e.walk()
	e.mustHave("one", "two")
	if e.have.Root() != s.hello.Root || e.last.Root != s.hello.Root || e.last.Revision < s.hello.Revision {
		e.Errorf("the comparison found %+v, the hello is %+v", e.last, s.hello)
	}
	// The session continues after the comparison.
	e.Desire("three", "3")
	s.follow(e.contains("one", "two", "three"))
}

// changes: the hub sends each change, and marks have the content hash.
func changes(e *exam) {
	s := e.open()
	e.Desire("one", "1")
	made := putOf(e, s.follow(e.contains("one")), "one")
	e.Desire("one", "2")
	if edited := putOf(e, s.follow(always), "one"); edited.UID != made.UID || edited.Digest == made.Digest {
		e.Errorf("edited it is %+v, was %+v", edited, made)
	}
	e.Desire("two", "1")
	s.follow(e.contains("one", "two"))
	e.Delete("one")
	e.Delete("two")
	s.follow(e.contains())
	if !e.last.Root.IsZero() || e.last.Count != 0 {
		e.Errorf("the mark of an empty content is %+v", e.last)
	}
	e.Desire("one", "1")
	if again := putOf(e, s.follow(e.contains("one")), "one"); again.UID == made.UID {
		e.Error("an object that was deleted and created again has the same UID")
	}
}

// putOf returns the last put of a name among frames, and checks its fields.
func putOf(e *exam, frames []wire.Frame, name string) (p *wire.Put) {
	e.Helper()
	for _, f := range frames {
		if f.Put != nil && f.Put.Key == KeyOf(name) {
			p = f.Put
		}
	}
	if p == nil {
		e.Fatalf("there is no put of %q in %+v", name, frames)
	}
	var object struct {
		APIVersion, Kind string
		Metadata         struct {
			Name, Namespace, ResourceVersion, UID string
		}
	}
	e.ok(json.Unmarshal(p.Object, &object))
	if object.APIVersion != "v1" || object.Kind != "ConfigMap" || object.Metadata.Name != name || object.Metadata.Namespace != "default" ||
		object.Metadata.ResourceVersion != "" || object.Metadata.UID != "" {
		e.Errorf("the object is %s", p.Object)
	}
	if p.UID == "" || p.Digest != wire.SumOf(p.Object) || p.Revision <= 0 || strings.Contains(string(p.Object), "\n") {
		e.Errorf("the put is %+v", p)
	}
	return p
}

// causes: frames distinguish a deletion by a user from one by policy.
func causes(e *exam) {
	e.Desire("one", "1")
	e.Desire("two", "2")
	e.walk()
	s := e.open()
	e.Delete("one")
	e.removed(s, "one", wire.Deleted)
	e.Unassign("two")
	e.removed(s, "two", wire.Unassigned)
}

// removed reads frames up to a removal, which must be of a name and have a cause.
func (e *exam) removed(s *session, name string, cause wire.Cause) {
	e.Helper()
	for {
		switch f := s.next(); {
		case f.Del == nil:
			e.ok(e.have.Apply(f))
			continue
		case f.Del.Key != KeyOf(name) || f.Del.Cause != cause:
			e.Errorf("%+v, want %s for %s", f.Del, name, cause)
			fallthrough
		default:
			e.ok(e.have.Apply(f))
			return
		}
	}
}

// policies: the policy of an object is part of its leaf.
func policies(e *exam) {
	s := e.open()
	e.Protect("one")
	if p := putOf(e, s.follow(e.contains("one")), "one"); p.Policy != (wire.Policy{CreateOnly: true}) {
		e.Errorf("the policy is %+v", p.Policy)
	}
	e.have = Holding{}
	e.walk()
	if e.have.Root() != e.last.Root {
		e.Error("a comparison does not find the policy")
	}
}

// keepsHeld: a hold is part of the content, and names an object that the location must not change.
func keepsHeld(e *exam) {
	e.Desire("one", "1")
	e.walk()
	s := e.open()
	e.Hold("one")
	var held *wire.Hold
	for held == nil {
		for _, f := range s.follow(always) {
			if f.Hold != nil {
				held = f.Hold
			}
		}
	}
	if held.Key != KeyOf("one") || held.UID == "" || held.Reason == "" || held.Error == "" {
		e.Fatalf("the hold is %+v", held)
	}
	e.alsoFetched(func(f wire.Frame) bool { return f.Hold != nil && *f.Hold == *held })
}

// impersonates: an agent that supports it receives the ServiceAccount for an object, and each change
// of that.
func impersonates(e *exam) {
	e.capabilities = "Other, " + wire.Impersonates
	e.Desire("one", "1")
	s := e.open()
	e.walk()
	for _, account := range []string{"tenants/a", "tenants/b", ""} {
		e.Impersonate(account)
		if p := putOf(e, s.follow(e.contains("one")), "one"); p.Policy != (wire.Policy{ServiceAccount: account}) {
			e.Fatalf("admitted for %q the policy is %+v", account, p.Policy)
		}
		have := e.have
		e.have = Holding{}
		if e.walk(); e.have.Root() != have.Root() || e.have.Root() != e.last.Root {
			e.Fatalf("admitted for %q, a comparison finds a difference", account)
		}
		e.alsoFetched(func(f wire.Frame) bool { return f.Put != nil && f.Put.Policy.ServiceAccount == account })
	}
}

// impersonatesNot: an agent that does not support impersonation receives a hold for an object with a
// ServiceAccount, from all calls. When it supports impersonation later, it receives the object.
func impersonatesNot(e *exam) {
	e.Impersonate("tenants/a")
	e.Desire("one", "1")
	s := e.open()
	e.walk()
	e.Desire("one", "2")
	e.Desire("two", "1")
	held := func(f wire.Frame) bool {
		return f.Put == nil && (f.Hold == nil || f.Hold.Reason == v1alpha1.ReasonCannotImpersonate && f.Hold.Error != "")
	}
	for _, f := range s.follow(e.contains("one", "two")) {
		if !held(f) {
			e.Errorf("an agent that can't impersonate is sent %+v", f)
		}
	}
	if e.have.Root() != e.last.Root {
		e.Error("the session does not have the whole content")
	}
	e.alsoFetched(func(f wire.Frame) bool { return f.Hold != nil && held(f) })
	e.Impersonate("")
	putOf(e, s.follow(e.contains("one", "two")), "one")
	e.Impersonate("tenants/a")
	s.follow(func() bool { return e.contains("one", "two")() && e.have.Root() == e.last.Root })
	e.capabilities = wire.Impersonates
	if s = e.open(); s.hello.Root == e.have.Root() {
		e.Error("the content for an agent that supports impersonation is the same")
	}
	e.walk()
	e.alsoFetched(func(f wire.Frame) bool { return f.Put != nil && f.Put.Policy.ServiceAccount == "tenants/a" })
}

// admits: objects that the location does not admit are not part of its content, and are removed by
// policy.
func admits(e *exam) {
	e.Desire("one", "1")
	s := e.open()
	e.walk()
	e.Admit(false)
	for _, f := range s.follow(e.contains()) {
		if f.Del != nil && f.Del.Cause != wire.Unassigned {
			e.Errorf("an object that is no longer admitted is removed by %+v", f.Del)
		}
	}
	e.Desire("two", "1")
	e.Admit(true)
	s.follow(e.contains("one", "two"))
}

// conflicts: the location receives the owner of the object that it has instead.
func conflicts(e *exam) {
	s := e.open()
	e.Conflict("one")
	var conflict *wire.Conflict
	for conflict == nil {
		for _, f := range s.follow(always) {
			if f.Conflict != nil {
				conflict = f.Conflict
			}
		}
	}
	if conflict.Key != KeyOf("one") || conflict.UID == "" || conflict.Owner == "" || conflict.Owner == conflict.Key {
		e.Fatalf("the conflict is %+v", conflict)
	}
	e.alsoFetched(func(f wire.Frame) bool { return f.Conflict != nil && *f.Conflict == *conflict })
}

// confirmed: for an object whose deletion waits for a confirmation, an agent that can confirm receives
// a gone frame until it has confirmed. Another agent receives a removal.
func confirmed(e *exam) {
	e.capabilities = wire.Confirms
	e.Await("one")
	s := e.open()
	e.walk()
	e.mustHave("one")
	frames, err := e.Client().Exchange(e.ctx, route.Fetch, wire.Fetch{Key: KeyOf("one")})
	e.ok(err)
	uid := putOf(e, frames, "one").UID
	_, err = e.Client().Report(e.ctx, report("one", wire.Report{UID: uid, State: wire.Applied}))
	e.ok(err)
	e.Delete("one")
	var gone *wire.Gone
	for gone == nil {
		for _, f := range s.follow(always) {
			if gone = f.Gone; gone != nil {
				break
			}
		}
	}
	if gone.Key != KeyOf("one") || gone.UID != uid || gone.APIVersion != "v1" || gone.Kind != "ConfigMap" || e.have.Root() != e.last.Root {
		e.Fatalf("the gone frame is %+v", gone)
	}
	e.alsoFetched(func(f wire.Frame) bool { return f.Gone != nil && *f.Gone == *gone })
	e.capabilities = ""
	e.alsoFetched(func(f wire.Frame) bool { return f.Del != nil })
	e.capabilities = wire.Confirms
	_, err = e.Client().Report(e.ctx, report("one", wire.Report{UID: uid, State: wire.Removed}))
	e.ok(err)
	s.follow(e.contains())
}

// alsoFetched checks the frame with which a fetch answers for the object "one".
func (e *exam) alsoFetched(is func(wire.Frame) bool) {
	e.Helper()
	frames, err := e.Client().Exchange(e.ctx, route.Fetch, wire.Fetch{Key: KeyOf("one")})
	e.ok(err)
	if len(frames) != 2 || !is(frames[0]) {
		e.Errorf("a fetch has %+v", frames)
	}
}

// walks: a comparison finds the differences for any content of the agent.
func walks(e *exam) {
	for i := range 5 {
		e.Desire(fmt.Sprint("n", i), "1")
	}
	e.walk()
	e.mustHave("n0", "n1", "n2", "n3", "n4")
	frames, err := e.Client().Exchange(e.ctx, route.Walk, wire.Walk{After: e.last.Revision, Marker: e.last.Marker}, e.have.Index().Span("", ""))
	e.ok(err)
	if len(frames) != 2 || frames[0].Hello == nil || frames[1].Mark == nil {
		e.Fatalf("in sync, a comparison has %+v", frames)
	}
	hello, mark := frames[0].Hello, frames[1].Mark
	if hello.Revision != mark.Revision || hello.Root != mark.Root || hello.Count != mark.Count || hello.Marker != mark.Marker || !hello.Continuous || mark.Root != e.have.Root() {
		e.Errorf("a comparison begins with %+v and ends with %+v", hello, mark)
	}
	e.have[KeyOf("ghost")], e.have[KeyOf("n3")] = wire.SumOf([]byte("x")), wire.SumOf([]byte("y"))
	delete(e.have, KeyOf("n1"))
	e.Delete("n2")
	e.walk()
	e.mustHave("n0", "n1", "n3", "n4")
	if e.have.Root() != e.last.Root {
		e.Errorf("after a comparison the root is not %+v", e.last)
	}
}

// walkInPages: a large comparison has pages, which are about the same state or about later ones.
func walkInPages(e *exam) {
	var names []string
	for i := range 150 {
		names = append(names, fmt.Sprintf("n%03d", i))
		e.Desire(names[i], "1")
	}
	first, err := e.Client().walkPage(e.ctx, wire.Walk{}, []wire.Span{{}})
	e.ok(err)
	if len(first) != 3 || len(first[1].RangeDifference.Split) == 0 {
		e.Fatalf("the first page is %+v", first)
	}
	e.Desire("more", "1")
	second, err := e.Client().walkPage(e.ctx, wire.Walk{Revision: first[0].Hello.Revision}, e.have.Index().Compare(*first[1].RangeDifference).Next)
	e.ok(err)
	total, count := wire.Sum{}, 0
	for _, f := range second {
		if f.RangeDifference != nil {
			for _, leaf := range f.RangeDifference.Leaves {
				total, count = total.Add(leaf.Sum), count+1
			}
		}
	}
	hello := second[0].Hello
	if hello.Revision < first[0].Hello.Revision || hello.Root != total || hello.Count != count {
		e.Errorf("the second page has %d leaves, and the hello %+v after %+v", count, hello, first[0].Hello)
	}
	if hello.Revision == first[0].Hello.Revision && hello.Root != first[0].Hello.Root {
		e.Error("two pages of one revision differ in content")
	}
	e.walk()
	e.mustHave(append(names, "more")...)
	if pages := e.walk(); pages != 1 {
		e.Errorf("a comparison in sync took %d pages", pages)
	}
}

// fetches: a fetch answers for each key, in order.
func fetches(e *exam) {
	e.Desire("one", "1")
	frames, err := e.Client().Exchange(e.ctx, route.Fetch,
		wire.Fetch{Key: KeyOf("none")}, wire.Fetch{Key: KeyOf("one")}, wire.Fetch{Key: "../../e/a"}, wire.Fetch{Key: ""})
	e.ok(err)
	if len(frames) != 5 || frames[1].Put == nil {
		e.Fatalf("answered %+v", frames)
	}
	for i, k := range map[int]string{0: KeyOf("none"), 2: "../../e/a", 3: ""} {
		if d := frames[i].Del; d == nil || d.Key != k || d.Cause != wire.Walked {
			e.Errorf("for %q it answers %+v", k, frames[i])
		}
	}
	p := putOf(e, frames, "one")
	if mark := frames[4].Mark; p.Marker != mark.Marker || p.Marker == "" || p.Revision > mark.Revision {
		e.Errorf("the put is %+v, the mark %+v", p, mark)
	}
}

// fetchesLarge: a response may end early, with some of the requested objects.
func fetchesLarge(e *exam) {
	var names []string
	var all []any
	for i := range 7 {
		names = append(names, fmt.Sprint("n", i))
		e.Desire(names[i], strings.Repeat("x", 900<<10))
		all = append(all, wire.Fetch{Key: KeyOf(names[i])})
	}
	frames, err := e.Client().Exchange(e.ctx, route.Fetch, all...)
	e.ok(err)
	if n := len(frames); n < 2 || n > len(all)+1 {
		e.Fatalf("the answer has %d frames", n)
	}
	for i, f := range frames[:len(frames)-1] {
		if f.Put == nil || f.Put.Key != KeyOf(names[i]) {
			e.Fatalf("frame %d is of another key than %q", i, names[i])
		}
	}
	e.walk()
	e.mustHave(names...)
}
