package mapper

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/wire"
)

func digest(s string) wire.Sum { return wire.SumOf([]byte(s)) }

func putWant(uid, content string) *store.Want {
	return &store.Want{Kind: store.WantPut, Leaf: store.Source{UID: uid, Digest: digest(content)}, Version: "v1", ObjectKind: "ConfigMap"}
}

func recordOf(space key.Space, uid, content string) *store.Record {
	return &store.Record{Space: space, Source: store.Source{UID: uid, Digest: digest(content)}, UID: "target-uid", Fields: 7, Version: "v1", Kind: "ConfigMap"}
}

func treated(content string, p wire.Policy) *store.Want {
	w := putWant("u", content)
	w.Leaf.Policy = p
	return w
}

var anyPolicy = rapid.Custom(func(t *rapid.T) wire.Policy {
	return wire.Policy{
		CreateOnly: rapid.Bool().Draw(t, "createOnly"), Adopt: rapid.Bool().Draw(t, "adopt"), Recreate: rapid.Bool().Draw(t, "recreate"),
		Orphan: rapid.Bool().Draw(t, "orphan"), ReportDrift: rapid.Bool().Draw(t, "reportDrift"),
		Release: rapid.SampledFrom([]string{"", "", "$.data.v", "$.data.w"}).Draw(t, "release"),
	}
})

var anyFacts = rapid.Custom(func(t *rapid.T) facts {
	uid := rapid.SampledFrom([]string{"t1", "t2"})
	content := rapid.SampledFrom([]string{"a", "b"})
	f := facts{
		space: "s", guarded: rapid.Bool().Draw(t, "guarded"), settled: rapid.Bool().Draw(t, "settled"),
		seen: observed{presence: presence(rapid.IntRange(0, int(foreign)).Draw(t, "presence"))},
	}
	if f.seen.presence == present {
		f.seen.uid, f.seen.fields = uid.Draw(t, "uid"), marks.FieldsHash(rapid.IntRange(1, 2).Draw(t, "fields"))
		f.seen.terminating, f.seen.unmarked = rapid.Bool().Draw(t, "terminating"), rapid.Bool().Draw(t, "unmarked")
	}
	if f.seen.presence == foreign {
		f.seen.uid, f.seen.owned = "f", rapid.Bool().Draw(t, "owned")
	}
	f.settled = rapid.Bool().Draw(t, "settled")
	f.completed = rapid.SampledFrom([]string{"", "", "Complete"}).Draw(t, "completed")
	f.reported = f.completed != "" || rapid.Bool().Draw(t, "reported")
	f.seen.taken = f.seen.presence == absent && rapid.Bool().Draw(t, "taken")
	if rapid.Bool().Draw(t, "recorded") {
		f.record = recordOf(rapid.SampledFrom([]key.Space{"s", "o"}).Draw(t, "space"), "u", content.Draw(t, "applied"))
		f.record.UID, f.record.Fields = uid.Draw(t, "recorded uid"), marks.FieldsHash(rapid.IntRange(1, 2).Draw(t, "recorded fields"))
		f.record.Source.Policy = anyPolicy.Draw(t, "recorded policy")
	} else if f.seen.presence == present || f.seen.presence == foreign {
		f.proof = rapid.SampledFrom([]marks.Proof{marks.Unneeded, marks.Given, marks.Unasked, marks.Missing}).Draw(t, "proof")
	}
	if kind := rapid.SampledFrom([]store.WantKind{"", store.WantPut, store.WantHold, store.WantConflict}).Draw(t, "kind"); kind != "" {
		f.want = &store.Want{Kind: kind, Leaf: store.Source{UID: "u", Digest: digest(content.Draw(t, "want")), Policy: anyPolicy.Draw(t, "policy")}}
		if kind != store.WantPut && rapid.Bool().Draw(t, "kept") {
			f.want.Kept = &store.Source{UID: "u", Digest: digest(content.Draw(t, "kept content")), Policy: anyPolicy.Draw(t, "kept policy")}
		}
	}
	return f
})

// What decide must never do, whatever the facts.
func TestDecideNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts.Draw(t, "facts")
		d := decide(f)
		checkPolicies(t, f, d)
		if f.want != nil && (d.do == doRemove || d.do == doLetGo || d.do == doForget || d.do == doClaim || d.do == doVerifyKind) {
			t.Errorf("what is desired is removed: %+v", d)
		}
		if f.want == nil && d.do == doApply {
			t.Errorf("what is not desired is applied: %+v", d)
		}
		if d.do == doRemove && (f.record == nil || d.uid != f.record.UID || f.guarded) {
			t.Errorf("a removal without proof: %+v", d)
		}
		if d.do == doClaim && !f.settled {
			t.Errorf("a claim without knowing what is desired: %+v", d)
		}
		if f.proof.Waits() && f.seen.presence == present && d.do != doNothing {
			t.Errorf("what is not proven is changed: %+v", d)
		}
		if f.proof.Waits() && d.adopt {
			t.Errorf("what is not proven is adopted: %+v", d)
		}
		if f.proof == marks.Missing && f.seen.presence == present && !f.seen.terminating && f.want != nil && f.want.Object() != nil &&
			(d.state != wire.Waiting || d.reason != v1alpha1.ReasonLineageUnproven) {
			t.Errorf("what is not proven is not said to wait: %+v", d)
		}
		if f.seen.presence == foreign && !d.adopt && d.do != doLetGo && d.do != doNothing && d.do != doForget && d.do != doRemove {
			t.Errorf("a foreign object is touched: %+v", d)
		}
		if d.do == doNothing && d.state == "" && f.seen.presence != unseen && !(f.want == nil && f.record == nil && !f.settled) && f.proof != marks.Unasked {
			t.Errorf("nothing is done and nothing said: %+v", d)
		}
	})
}

// checkPolicies sees that what is done is what the policies allow.
func checkPolicies(t *rapid.T, f facts, d decision) {
	if d.do == doRemove && f.record.Source.Policy.Orphan || d.do == doLetGo && !f.record.Source.Policy.Orphan {
		t.Errorf("what is recorded says otherwise: %+v", d)
	}
	if f.want == nil || f.want.Object() == nil {
		return
	}
	p, s := f.want.Object().Policy, f.want.Object()
	if d.adopt && (!p.Adopt || f.seen.owned || f.seen.presence != foreign) {
		t.Errorf("what is not ours is adopted: %+v", d)
	}
	if p.CreateOnly && d.do == doApply && d.uid != "" && !f.replaced(*s) {
		t.Errorf("what was made is changed: %+v", d)
	}
	if p.ReportDrift && d.do == doApply && d.drift && f.seen.presence == present && f.seen.uid == f.record.UID {
		t.Errorf("drift is repaired: %+v", d)
	}
	if f.completed != "" && d.do == doApply && d.uid == "" {
		t.Errorf("what ran to its end runs again: %+v", d)
	}
}

// An apply that succeeds, seen by the watch, leaves nothing to do.
func TestDecideSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts.Draw(t, "facts")
		if decide(f).do != doApply {
			return
		}
		f.record = &store.Record{Space: f.space, Source: *f.want.Object(), UID: "t9", Fields: 9}
		f.seen = observed{presence: present, uid: "t9", fields: 9}
		if d := decide(f); d.do != doNothing || d.state != wire.Applied {
			t.Errorf("after the apply: %+v", d)
		}
	})
}

func TestChoose(t *testing.T) {
	object, conflict := putWant("u", "a"), &store.Want{Kind: store.WantConflict}
	for _, c := range []struct {
		name  string
		wants []spaceWant
		rec   *store.Record
		want  int
	}{
		{"nobody", []spaceWant{{space: "a"}}, nil, -1},
		{"the only one", []spaceWant{{space: "a"}, {space: "b", want: object}}, nil, 1},
		{"an object before a conflict", []spaceWant{{"a", conflict}, {"b", object}}, recordOf("a", "u", "a"), 1},
		{"the owner before others", []spaceWant{{"a", object}, {"b", object}}, recordOf("b", "u", "a"), 1},
		{"the first by name", []spaceWant{{"b", object}, {"a", object}}, nil, 1},
	} {
		if got := choose(c.wants, c.rec); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestCompose(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	w := putWant("u", "b")
	w.Leaf.Policy.ReturnStatus = true
	rec := recordOf("s", "u", "a")
	first := compose(w, rec, decision{state: wire.Applied}, []byte(`{"x":1}`), nil, now)
	if first.Since != "2030-01-02T03:04:05Z" || string(first.Status) != `{"x":1}` || first.Digest != digest("a") {
		t.Errorf("got %+v", first)
	}
	again := compose(w, rec, decision{state: wire.Applied, message: "more"}, nil, &first, now.Add(time.Hour))
	if again.Since != first.Since {
		t.Errorf("since changed with the message to %s", again.Since)
	}
	failed := compose(w, rec, decision{state: wire.Failed}, nil, &again, now.Add(time.Hour))
	if failed.Since == first.Since {
		t.Error("since did not change with the state")
	}
	w.Deferred = true
	if r := compose(w, rec, decision{state: wire.Applied}, nil, nil, now); r.State != wire.Waiting || r.Reason != "LineageUnproven" {
		t.Errorf("deferred: %+v", r)
	}
}
