package protocol

import (
	"encoding/json"
	"fmt"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// contentCases are about the desired content of a location.
func contentCases() []hubCase {
	return []hubCase{
		{"FromNothing", fromNothing},
		{"Changes", changes},
		{"Causes", causes},
		{"Policies", policies},
		{"Holds", holds},
		{"Impersonates", impersonates},
		{"ImpersonatesNot", impersonatesNot},
		{"Admits", admits},
		{"Conflicts", conflicts},
		{"Confirmed", confirmed},
		{"Walk", walks},
		{"WalkInPages", walkInPages},
		{"Fetch", fetches},
		{"FetchOfWhatIsLarge", fetchesWhatIsLarge},
	}
}

// fromNothing: the first session of an agent says what there is, and a walk finds it.
func fromNothing(e *exam) {
	if s := e.open(); s.hello.Count != 0 || !s.hello.Root.IsZero() || !s.hello.Continuous || s.hello.Resumed {
		e.Errorf("of nothing the hello is %+v", s.hello)
	}
	e.Desire("one", "1")
	e.Desire("two", "2")
	s := e.open()
	if s.hello.Count != 2 || !s.hello.Continuous || s.hello.Resumed {
		e.Errorf("the hello is %+v", s.hello)
	}
	e.walk()
	e.mustHave("one", "two")
	if e.have.Root() != s.hello.Root || e.at.Root != s.hello.Root || e.at.Revision < s.hello.Revision {
		e.Errorf("the walk found %+v, the hello is %+v", e.at, s.hello)
	}
	// The session goes on meanwhile.
	e.Desire("three", "3")
	s.follow(e.has("one", "two", "three"))
}

// changes: each change is sent, and marks say what the content adds up to.
func changes(e *exam) {
	s := e.open()
	e.Desire("one", "1")
	made := putOf(e, s.follow(e.has("one")), "one")
	e.Desire("one", "2")
	if edited := putOf(e, s.follow(always), "one"); edited.UID != made.UID || edited.Digest == made.Digest {
		e.Errorf("edited it is %+v, was %+v", edited, made)
	}
	e.Desire("two", "1")
	s.follow(e.has("one", "two"))
	e.Delete("one")
	e.Delete("two")
	s.follow(e.has())
	if !e.at.Root.IsZero() || e.at.Count != 0 {
		e.Errorf("the mark of nothing is %+v", e.at)
	}
	e.Desire("one", "1")
	if again := putOf(e, s.follow(e.has("one")), "one"); again.UID == made.UID {
		e.Error("what was deleted and made again has the same UID")
	}
}

// putOf is the last put of a name among frames, which makes sense by itself.
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

// causes: a user's deletion can be told from one by policy.
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

// policies: how an object is treated is part of its leaf.
func policies(e *exam) {
	s := e.open()
	e.Protect("one")
	if p := putOf(e, s.follow(e.has("one")), "one"); p.Policy != (wire.Policy{CreateOnly: true}) {
		e.Errorf("the policy is %+v", p.Policy)
	}
	e.have = Holding{}
	e.walk()
	if e.have.Root() != e.at.Root {
		e.Error("a walk does not find the policy")
	}
}

// holds: of what is held the location keeps what it has; that is part of its content.
func holds(e *exam) {
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

// impersonates: an agent that can is told who acts for an object, and of each change.
func impersonates(e *exam) {
	e.capabilities = "Other, " + wire.Impersonates
	e.Desire("one", "1")
	s := e.open()
	e.walk()
	for _, account := range []string{"tenants/a", "tenants/b", ""} {
		e.Impersonate(account)
		if p := putOf(e, s.follow(e.has("one")), "one"); p.Policy != (wire.Policy{ServiceAccount: account}) {
			e.Fatalf("admitted for %q the policy is %+v", account, p.Policy)
		}
		have := e.have
		e.have = Holding{}
		if e.walk(); e.have.Root() != have.Root() || e.have.Root() != e.at.Root {
			e.Fatalf("admitted for %q, a walk finds something else", account)
		}
		e.alsoFetched(func(f wire.Frame) bool { return f.Put != nil && f.Put.Policy.ServiceAccount == account })
	}
}

// impersonatesNot: an agent that can't is told to leave alone what a ServiceAccount is to
// act for, however it asks; one that can by then is told all.
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
	for _, f := range s.follow(e.has("one", "two")) {
		if !held(f) {
			e.Errorf("an agent that can't impersonate is sent %+v", f)
		}
	}
	if e.have.Root() != e.at.Root {
		e.Error("the session has not all")
	}
	e.alsoFetched(func(f wire.Frame) bool { return f.Hold != nil && held(f) })
	e.Impersonate("")
	putOf(e, s.follow(e.has("one", "two")), "one")
	e.Impersonate("tenants/a")
	s.follow(func() bool { return e.has("one", "two")() && e.have.Root() == e.at.Root })
	e.capabilities = wire.Impersonates
	if s = e.open(); s.hello.Root == e.have.Root() {
		e.Error("an agent that can impersonate by now is to have the same")
	}
	e.walk()
	e.alsoFetched(func(f wire.Frame) bool { return f.Put != nil && f.Put.Policy.ServiceAccount == "tenants/a" })
}

// admits: what the location does not admit is not its content, and leaves it by policy.
func admits(e *exam) {
	e.Desire("one", "1")
	s := e.open()
	e.walk()
	e.Admit(false)
	for _, f := range s.follow(e.has()) {
		if f.Del != nil && f.Del.Cause != wire.Unassigned {
			e.Errorf("what is no longer admitted goes as %+v", f.Del)
		}
	}
	e.Desire("two", "1")
	e.Admit(true)
	s.follow(e.has("one", "two"))
}

// conflicts: the location hears of whom it has instead.
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

// confirmed: of what is to be gone, and waits for the location's word, an agent that can give
// it is told so, until it has; another is told that it is not desired.
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
	if gone.Key != KeyOf("one") || gone.UID != uid || gone.APIVersion != "v1" || gone.Kind != "ConfigMap" || e.have.Root() != e.at.Root {
		e.Fatalf("it is to be gone as %+v", gone)
	}
	e.alsoFetched(func(f wire.Frame) bool { return f.Gone != nil && *f.Gone == *gone })
	e.capabilities = ""
	e.alsoFetched(func(f wire.Frame) bool { return f.Del != nil })
	e.capabilities = wire.Confirms
	_, err = e.Client().Report(e.ctx, report("one", wire.Report{UID: uid, State: wire.Removed}))
	e.ok(err)
	s.follow(e.has())
}

// alsoFetched sees that a fetch of the object "one" answers as the session did.
func (e *exam) alsoFetched(is func(wire.Frame) bool) {
	e.Helper()
	frames, err := e.Client().Exchange(e.ctx, route.Fetch, wire.Fetch{Key: KeyOf("one")})
	e.ok(err)
	if len(frames) != 2 || !is(frames[0]) {
		e.Errorf("a fetch has %+v", frames)
	}
}

// walks: what differs is found, whatever the agent has.
func walks(e *exam) {
	for i := range 5 {
		e.Desire(fmt.Sprint("n", i), "1")
	}
	e.walk()
	e.mustHave("n0", "n1", "n2", "n3", "n4")
	frames, err := e.Client().Exchange(e.ctx, route.Walk, wire.Walk{After: e.at.Revision, Marker: e.at.Marker}, e.have.Index().Span("", ""))
	e.ok(err)
	if len(frames) != 2 || frames[0].Hello == nil || frames[1].Mark == nil {
		e.Fatalf("in sync a walk has %+v", frames)
	}
	hello, mark := frames[0].Hello, frames[1].Mark
	if hello.Revision != mark.Revision || hello.Root != mark.Root || hello.Count != mark.Count || hello.Marker != mark.Marker || !hello.Continuous || mark.Root != e.have.Root() {
		e.Errorf("a walk begins with %+v and ends with %+v", hello, mark)
	}
	e.have[KeyOf("ghost")], e.have[KeyOf("n3")] = wire.SumOf([]byte("x")), wire.SumOf([]byte("y"))
	delete(e.have, KeyOf("n1"))
	e.Delete("n2")
	e.walk()
	e.mustHave("n0", "n1", "n3", "n4")
	if e.have.Root() != e.at.Root {
		e.Errorf("after a walk the root is not %+v", e.at)
	}
}

// walkInPages: a walk of much is paged, about one state or about later ones.
func walkInPages(e *exam) {
	var names []string
	for i := range 150 {
		names = append(names, fmt.Sprintf("n%03d", i))
		e.Desire(names[i], "1")
	}
	first, err := e.Client().walkPage(e.ctx, wire.Walk{}, []wire.Span{{}})
	e.ok(err)
	if len(first) != 3 || len(first[1].Part.Split) == 0 {
		e.Fatalf("the first page is %+v", first)
	}
	e.Desire("more", "1")
	second, err := e.Client().walkPage(e.ctx, wire.Walk{At: first[0].Hello.Revision}, e.have.Index().Compare(*first[1].Part).Ask)
	e.ok(err)
	total, count := wire.Sum{}, 0
	for _, f := range second {
		if f.Part != nil {
			for _, leaf := range f.Part.Leaves {
				total, count = total.Add(leaf.Sum), count+1
			}
		}
	}
	hello := second[0].Hello
	if hello.Revision < first[0].Hello.Revision || hello.Root != total || hello.Count != count {
		e.Errorf("the second page has %d leaves, and says %+v after %+v", count, hello, first[0].Hello)
	}
	if hello.Revision == first[0].Hello.Revision && hello.Root != first[0].Hello.Root {
		e.Error("two pages of one revision are of another content")
	}
	e.walk()
	e.mustHave(append(names, "more")...)
	if pages := e.walk(); pages != 1 {
		e.Errorf("a walk in sync took %d pages", pages)
	}
}

// fetches: each key has an answer, in order.
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
			e.Errorf("of %q it says %+v", k, frames[i])
		}
	}
	p := putOf(e, frames, "one")
	if mark := frames[4].Mark; p.Marker != mark.Marker || p.Marker == "" || p.Revision > mark.Revision {
		e.Errorf("the put is %+v, the mark %+v", p, mark)
	}
}

// fetchesWhatIsLarge: an answer may end early, with some of what was asked for.
func fetchesWhatIsLarge(e *exam) {
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
