package decide

import (
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

func treated(content string, p wire.Policy) *store.Want {
	w := putWant(content)
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

var anyFacts = rapid.Custom(func(t *rapid.T) Facts {
	uid := rapid.SampledFrom([]string{"t1", "t2"})
	content := rapid.SampledFrom([]string{"a", "b"})
	f := Facts{
		Space: "s", Guarded: rapid.Bool().Draw(t, "guarded"), DesiredComplete: rapid.Bool().Draw(t, "settled"),
		Seen: Observed{Existence: Existence(rapid.IntRange(0, int(Foreign)).Draw(t, "presence"))},
	}
	if f.Seen.Existence == Present {
		f.Seen.UID, f.Seen.Fields = uid.Draw(t, "uid"), ownership.FieldsHash(rapid.IntRange(1, 2).Draw(t, "fields"))
		f.Seen.Terminating, f.Seen.Unmarked = rapid.Bool().Draw(t, "terminating"), rapid.Bool().Draw(t, "unmarked")
	}
	if f.Seen.Existence == Foreign {
		f.Seen.UID, f.Seen.Owned, f.Seen.Inherited = "f", rapid.Bool().Draw(t, "owned"), rapid.Bool().Draw(t, "inherited")
	}
	f.DesiredComplete = rapid.Bool().Draw(t, "settled")
	f.Completed = rapid.SampledFrom([]string{"", "", "Complete"}).Draw(t, "completed")
	f.Reported = f.Completed != "" || rapid.Bool().Draw(t, "reported")
	f.Seen.Taken = f.Seen.Existence == Absent && rapid.Bool().Draw(t, "taken")
	if rapid.Bool().Draw(t, "recorded") {
		f.Record = recordOf(rapid.SampledFrom([]key.Space{"s", "o"}).Draw(t, "space"), content.Draw(t, "applied"))
		f.Record.UID, f.Record.Fields = uid.Draw(t, "recorded uid"), ownership.FieldsHash(rapid.IntRange(1, 2).Draw(t, "recorded fields"))
		f.Record.Source.Policy = anyPolicy.Draw(t, "recorded policy")
	} else if f.Seen.Existence == Present || f.Seen.Existence == Foreign {
		f.Proof = rapid.SampledFrom([]ownership.Proof{ownership.Unneeded, ownership.Given, ownership.Unasked, ownership.Missing}).Draw(t, "proof")
	}
	if kind := rapid.SampledFrom([]store.WantKind{"", store.WantPut, store.WantHold, store.WantConflict}).Draw(t, "kind"); kind != "" {
		f.Want = &store.Want{Kind: kind, Leaf: store.Source{UID: "u", Digest: digest(content.Draw(t, "want")), Policy: anyPolicy.Draw(t, "policy")}}
		if kind != store.WantPut && rapid.Bool().Draw(t, "kept") {
			f.Want.Kept = &store.Source{UID: "u", Digest: digest(content.Draw(t, "kept content")), Policy: anyPolicy.Draw(t, "kept policy")}
		}
	}
	return f
})

// TestDecideNever shows which decisions are never made, for any facts.
func TestDecideNever(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		f := anyFacts.Draw(t, "facts")
		d := Decide(f)
		checkPolicies(t, f, d)
		if f.Want != nil && (d.Do == DoRemove || d.Do == DoLetGo || d.Do == DoForget || d.Do == DoClaim || d.Do == DoVerifyKind) {
			t.Errorf("what is desired is removed: %+v", d)
		}
		if f.Want == nil && d.Do == DoApply {
			t.Errorf("what is not desired is applied: %+v", d)
		}
		if d.Do == DoRemove && (f.Record == nil || d.UID != f.Record.UID || f.Guarded) {
			t.Errorf("a removal without proof: %+v", d)
		}
		if d.Do == DoClaim && !f.DesiredComplete {
			t.Errorf("a claim without knowing what is desired: %+v", d)
		}
		if f.Proof.Waits() && f.Seen.Existence == Present && d.Do != DoNothing {
			t.Errorf("what is not proven is changed: %+v", d)
		}
		if f.Proof.Waits() && d.Adopt {
			t.Errorf("what is not proven is adopted: %+v", d)
		}
		if f.Proof == ownership.Missing && f.Seen.Existence == Present && !f.Seen.Terminating && f.Want != nil && f.Want.Object() != nil &&
			(d.State != wire.Waiting || d.Reason != v1alpha1.ReasonLogUnproven) {
			t.Errorf("what is not proven is not said to wait: %+v", d)
		}
		if d.Do == DoInherit && (!f.Seen.Inherited || f.Proof.Waits() || f.Want == nil || d.UID != f.Seen.UID) {
			t.Errorf("what is not to be taken over is: %+v", d)
		}
		if f.Seen.Existence == Foreign && !d.Adopt && d.Do != DoInherit && d.Do != DoLetGo && d.Do != DoNothing && d.Do != DoForget && d.Do != DoRemove {
			t.Errorf("a foreign object is touched: %+v", d)
		}
		if d.Do == DoNothing && d.State == "" && f.Seen.Existence != Unseen && !(f.Want == nil && f.Record == nil && !f.DesiredComplete) && f.Proof != ownership.Unasked {
			t.Errorf("nothing is done and nothing said: %+v", d)
		}
	})
}

// checkPolicies sees that what is done is what the policies allow.
func checkPolicies(t *rapid.T, f Facts, d Decision) {
	if d.Do == DoRemove && f.Record.Source.Policy.Orphan || d.Do == DoLetGo && !f.Record.Source.Policy.Orphan {
		t.Errorf("what is recorded says otherwise: %+v", d)
	}
	if f.Want == nil || f.Want.Object() == nil {
		return
	}
	p, s := f.Want.Object().Policy, f.Want.Object()
	if d.Adopt && (!p.Adopt || f.Seen.Owned || f.Seen.Existence != Foreign) {
		t.Errorf("what is not ours is adopted: %+v", d)
	}
	if p.CreateOnly && d.Do == DoApply && d.UID != "" && !f.replaced(*s) {
		t.Errorf("what was made is changed: %+v", d)
	}
	if p.ReportDrift && d.Do == DoApply && d.Drift && f.Seen.Existence == Present && f.Seen.UID == f.Record.UID {
		t.Errorf("drift is repaired: %+v", d)
	}
	if f.Completed != "" && d.Do == DoApply && d.UID == "" {
		t.Errorf("what ran to its end runs again: %+v", d)
	}
}

// TestDecideSettles shows that an apply that succeeds, once the watch shows it, leaves
// nothing to do.
func TestDecideSettles(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		f := anyFacts.Draw(t, "facts")
		if Decide(f).Do != DoApply {
			return
		}
		f.Record = &store.Record{Space: f.Space, Source: *f.Want.Object(), UID: "t9", Fields: 9}
		f.Seen = Observed{Existence: Present, UID: "t9", Fields: 9}
		if d := Decide(f); d.Do != DoNothing || d.State != wire.Applied {
			t.Errorf("after the apply: %+v", d)
		}
	})
}

func TestChoose(t *testing.T) {
	object, conflict := putWant("a"), &store.Want{Kind: store.WantConflict}
	for _, c := range []struct {
		name  string
		wants []Entry
		rec   *store.Record
		want  int
	}{
		{"nobody", []Entry{{Space: "a"}}, nil, -1},
		{"the only one", []Entry{{Space: "a"}, {Space: "b", Want: object}}, nil, 1},
		{"an object before a conflict", []Entry{{Space: "a", Want: conflict}, {Space: "b", Want: object}}, recordOf("a", "a"), 1},
		{"the owner before others", []Entry{{Space: "a", Want: object}, {Space: "b", Want: object}}, recordOf("b", "a"), 1},
		{"the first by name", []Entry{{Space: "b", Want: object}, {Space: "a", Want: object}}, nil, 1},
	} {
		if got := Choose(c.wants, c.rec); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}
