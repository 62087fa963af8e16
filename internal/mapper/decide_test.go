package mapper

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

func digest(s string) wire.Sum { return wire.SumOf([]byte(s)) }

func putWant(uid, content string) *want {
	return &want{Kind: wantPut, Leaf: source{UID: uid, Digest: digest(content)}, Version: "v1", ObjectKind: "ConfigMap"}
}

func recordOf(space key.Space, uid, content string) *record {
	return &record{Space: space, Source: source{UID: uid, Digest: digest(content)}, UID: "target-uid", Fields: 7, Version: "v1", Kind: "ConfigMap"}
}

func treated(content string, p wire.Policy) *want {
	w := putWant("u", content)
	w.Leaf.Policy = p
	return w
}

func recordWith(p wire.Policy) *record {
	r := recordOf("s", "u", "a")
	r.Source.Policy = p
	return r
}

func TestDecide(t *testing.T) {
	here := observed{presence: present, uid: "target-uid", fields: 7, revision: 3}
	released := here
	released.released = true
	releases := wire.Policy{Release: "$.data.a"}
	with := func(f func(*observed)) observed {
		o := here
		f(&o)
		return o
	}
	wanted, applied := putWant("u", "a"), recordOf("s", "u", "a")
	held := &want{Kind: wantHold, Leaf: source{UID: "u", Digest: digest("hold")}, Kept: &source{UID: "u", Digest: digest("a")}, Note: "rule 1"}
	for _, c := range []struct {
		name   string
		facts  facts
		do     action
		uid    string
		drift  bool
		state  wire.State
		reason string
	}{
		{name: "not listed yet", facts: facts{want: wanted}},
		{name: "new", facts: facts{want: wanted, seen: observed{presence: absent}}, do: doApply},
		{name: "in sync", facts: facts{want: wanted, record: applied, seen: here}, state: wire.Applied},
		{
			name:  "edited",
			facts: facts{want: putWant("u", "b"), record: applied, seen: here}, do: doApply, uid: "target-uid",
		},
		{
			name:  "deleted and made again at the source",
			facts: facts{want: putWant("u2", "a"), record: applied, seen: here}, do: doApply, uid: "target-uid",
		},
		{
			name:  "another space takes over",
			facts: facts{want: wanted, record: recordOf("other", "u", "a"), seen: here}, do: doApply, uid: "target-uid",
		},
		{
			name:  "a field was taken away",
			facts: facts{want: wanted, record: applied, seen: with(func(o *observed) { o.fields = 8 })},
			do:    doApply, uid: "target-uid", drift: true,
		},
		{
			name:  "marks were stripped",
			facts: facts{want: wanted, record: applied, seen: with(func(o *observed) { o.unmarked = true })},
			do:    doApply, uid: "target-uid", drift: true,
		},
		{
			name:  "deleted at the target",
			facts: facts{want: wanted, record: applied, seen: observed{presence: absent}}, do: doApply, drift: true,
		},
		{
			name:  "made again at the target with our marks",
			facts: facts{want: wanted, record: applied, seen: with(func(o *observed) { o.uid = "new" })},
			do:    doApply, uid: "new", drift: true,
		},
		{
			name:  "marked by the former location",
			facts: facts{want: wanted, record: applied, seen: observed{presence: absent}, former: true}, do: doLook,
		},
		{
			name:  "marked by the former location and not observed",
			facts: facts{want: wanted, record: applied, seen: observed{presence: blind}, former: true}, do: doLook,
		},
		{
			name:  "marked by the former location and gone",
			facts: facts{want: wanted, record: applied, seen: observed{presence: absent}, former: true, looked: true}, do: doApply, drift: true,
		},
		{
			name:  "marked by the former location and found",
			facts: facts{want: wanted, record: applied, seen: with(func(o *observed) { o.unmarked = true }), former: true, looked: true},
			do:    doApply, uid: "target-uid",
		},
		{
			name: "marked by the former location and drifted",
			facts: facts{
				want: treated("a", wire.Policy{ReportDrift: true}), record: recordWith(wire.Policy{ReportDrift: true}),
				seen: with(func(o *observed) { o.unmarked, o.fields = true, 8 }), former: true, looked: true,
			},
			do: doMark, uid: "target-uid",
		},
		{name: "lost store", facts: facts{want: wanted, seen: here}, do: doApply, uid: "target-uid"},
		{
			name:  "being deleted at the target",
			facts: facts{want: wanted, record: applied, seen: with(func(o *observed) { o.terminating = true })},
			state: wire.Waiting, reason: "Terminating",
		},
		{
			name: "foreign", facts: facts{want: wanted, seen: observed{presence: foreign}},
			state: wire.InConflict, reason: "Exists",
		},
		{name: "foreign the last time", facts: facts{want: wanted, seen: observed{presence: absent, taken: true}}, do: doLook},
		{
			name: "not served", facts: facts{want: wanted, seen: observed{presence: unserved}},
			state: wire.Unsupported, reason: "NoSuchResource",
		},
		{name: "blind, new", facts: facts{want: wanted, seen: observed{presence: blind}}, do: doApply},
		{name: "blind, in sync", facts: facts{want: wanted, record: applied, seen: observed{presence: blind}}, state: wire.Applied},
		{
			name:  "blind, edited",
			facts: facts{want: putWant("u", "b"), record: applied, seen: observed{presence: blind}}, do: doApply, uid: "target-uid",
		},
		{
			name:  "blind, to stay from now on",
			facts: facts{want: treated("a", wire.Policy{Orphan: true}), record: applied, seen: observed{presence: blind}},
			do:    doApply, uid: "target-uid",
		},
		{
			name:  "to stay from now on",
			facts: facts{want: treated("a", wire.Policy{Orphan: true}), record: applied, seen: here}, do: doApply, uid: "target-uid",
		},
		{
			name: "to stay from now on, created only",
			facts: facts{
				want:   treated("a", wire.Policy{CreateOnly: true, Orphan: true}),
				record: recordWith(wire.Policy{CreateOnly: true}), seen: here,
			},
			do: doMark, uid: "target-uid",
		},
		{
			name: "to stay no more, reported drift",
			facts: facts{
				want:   treated("a", wire.Policy{ReportDrift: true}),
				record: recordWith(wire.Policy{ReportDrift: true, Orphan: true}), seen: with(func(o *observed) { o.fields++ }),
			},
			do: doInspect, uid: "target-uid",
		},
		{name: "held, applied before", facts: facts{want: held, record: applied, seen: here}, state: wire.Applied},
		{name: "held, repaired", facts: facts{want: held, record: applied, seen: observed{presence: absent}}, do: doApply, drift: true},
		{
			name: "held, never had it", facts: facts{want: &want{Kind: wantHold, Note: "rule 1"}, seen: observed{presence: absent}},
			state: wire.Held, reason: "NothingToKeep",
		},
		{
			name:  "another space has it",
			facts: facts{want: &want{Kind: wantConflict, Kept: &source{}, Note: "x/core/configmaps/n/a"}, record: applied, seen: here},
			state: wire.InConflict, reason: "OtherSpace",
		},
		{name: "removed", facts: facts{record: applied, seen: here}, do: doRemove, uid: "target-uid"},
		{name: "removed, not listed yet", facts: facts{record: applied}},
		{name: "removed, gone", facts: facts{record: applied, seen: observed{presence: absent}}, do: doRemove, uid: "target-uid"},
		{name: "removed, guarded", facts: facts{record: applied, guarded: true, seen: here}, state: wire.Removing, reason: "PruneGuard"},
		{
			name:  "removed, on its way",
			facts: facts{record: applied, seen: with(func(o *observed) { o.terminating = true })},
			state: wire.Removing, reason: "Terminating",
		},
		{
			name:  "removed, on its way without marks, so that nobody sees it go",
			facts: facts{record: applied, seen: with(func(o *observed) { o.terminating, o.unmarked = true, true })},
			do:    doRemove, uid: "target-uid",
		},
		{name: "removed, not served", facts: facts{record: applied, seen: observed{presence: unserved}}, do: doVerifyKind},
		{name: "nothing left", facts: facts{seen: observed{presence: absent}}, do: doForget},
		{name: "a stray", facts: facts{settled: true, seen: here}, do: doClaim, uid: "target-uid"},
		{name: "a stray, content not known", facts: facts{seen: here}},
		{
			name:  "create-only, tampered",
			facts: facts{want: treated("a", wire.Policy{CreateOnly: true}), record: applied, seen: with(func(o *observed) { o.fields = 8 })},
			state: wire.Applied, reason: "CreateOnly",
		},
		{
			name:  "create-only, edited",
			facts: facts{want: treated("b", wire.Policy{CreateOnly: true}), record: applied, seen: here}, do: doNote, uid: "target-uid",
		},
		{
			name:  "create-only, lost store",
			facts: facts{want: treated("a", wire.Policy{CreateOnly: true}), seen: here}, do: doNote, uid: "target-uid",
		},
		{
			name:  "create-only, missing",
			facts: facts{want: treated("b", wire.Policy{CreateOnly: true}), record: applied, seen: observed{presence: absent}}, do: doApply,
		},
		{
			name:  "create-only, another source",
			facts: facts{want: treated("a", wire.Policy{CreateOnly: true}), record: recordOf("s", "u0", "a"), seen: here},
			do:    doApply, uid: "target-uid",
		},
		{
			name:  "create-only, blind, edited",
			facts: facts{want: treated("b", wire.Policy{CreateOnly: true}), record: applied, seen: observed{presence: blind}},
			do:    doNote, uid: "target-uid",
		},
		{
			name:  "no longer create-only",
			facts: facts{want: wanted, record: recordWith(wire.Policy{CreateOnly: true}), seen: here}, do: doApply, uid: "target-uid",
		},
		{
			name:  "foreign, adopted",
			facts: facts{want: treated("a", wire.Policy{Adopt: true}), seen: observed{presence: foreign, uid: "f"}}, do: doApply, uid: "f",
		},
		{
			name:  "foreign, adopted and never changed",
			facts: facts{want: treated("a", wire.Policy{Adopt: true, CreateOnly: true}), seen: observed{presence: foreign, uid: "f"}}, do: doMark, uid: "f",
		},
		{
			name:  "create-only, without marks",
			facts: facts{want: treated("a", wire.Policy{CreateOnly: true}), record: applied, seen: with(func(o *observed) { o.unmarked = true })},
			do:    doMark, uid: "target-uid", drift: true,
		},
		{
			name:  "foreign, of a controller",
			facts: facts{want: treated("a", wire.Policy{Adopt: true}), seen: observed{presence: foreign, uid: "f", owned: true}},
			state: wire.InConflict, reason: "Exists",
		},
		{
			name:  "drift is reported",
			facts: facts{want: treated("a", wire.Policy{ReportDrift: true}), record: applied, seen: with(func(o *observed) { o.fields = 8 })},
			do:    doInspect, uid: "target-uid",
		},
		{
			name:  "drift is reported, edited",
			facts: facts{want: treated("b", wire.Policy{ReportDrift: true}), record: applied, seen: with(func(o *observed) { o.fields = 8 })},
			do:    doApply, uid: "target-uid",
		},
		{
			name:  "drift is reported, deleted",
			facts: facts{want: treated("a", wire.Policy{ReportDrift: true}), record: applied, seen: observed{presence: absent}},
			do:    doApply, drift: true,
		},
		{
			name:  "drift is reported, lost store",
			facts: facts{want: treated("a", wire.Policy{ReportDrift: true}), reported: true, seen: here}, do: doInspect, uid: "target-uid",
		},
		{
			name: "ran, gone", state: wire.Applied, reason: "Completed",
			facts: facts{want: wanted, record: applied, completed: "Complete", seen: observed{presence: absent}, looked: true},
		},
		{
			name: "ran, gone or without its marks", do: doLook,
			facts: facts{want: wanted, record: applied, completed: "Complete", seen: observed{presence: absent}},
		},
		{
			name:  "released, written by another",
			facts: facts{want: treated("a", releases), record: recordWith(releases), seen: here}, state: wire.Applied,
		},
		{name: "released now", facts: facts{want: treated("a", releases), record: applied, seen: here}, do: doApply, uid: "target-uid"},
		{name: "released no more", facts: facts{want: wanted, record: recordWith(releases), seen: here}, do: doApply, uid: "target-uid"},
		{
			name:  "released before, by its fields",
			facts: facts{want: wanted, record: applied, seen: released}, do: doApply, uid: "target-uid",
		},
		{
			name:  "released before, created only",
			facts: facts{want: treated("a", wire.Policy{CreateOnly: true}), record: recordWith(wire.Policy{CreateOnly: true}), seen: released},
			state: wire.Applied, reason: v1alpha1.ReasonCreateOnly,
		},
		{
			name: "ran, lost store", facts: facts{want: wanted, completed: "Complete", seen: observed{presence: absent}},
			state: wire.Applied, reason: "Completed",
		},
		{
			name:  "ran, going",
			facts: facts{want: wanted, record: applied, completed: "Complete", seen: with(func(o *observed) { o.terminating = true })},
			state: wire.Applied, reason: "Completed",
		},
		{name: "ran, there", facts: facts{want: wanted, record: applied, completed: "Complete", seen: here}, state: wire.Applied, reason: "Completed"},
		{name: "a trace, not listed yet", facts: facts{traced: true, settled: true}},
		{name: "a trace, gone", facts: facts{traced: true, settled: true, seen: observed{presence: absent}}, do: doForget},
		{name: "a trace, there", facts: facts{traced: true, settled: true, seen: here}, do: doClaim, uid: "target-uid"},
		{name: "orphaned before", facts: facts{lingers: time.Second, settled: true, seen: observed{presence: absent}}},
		{name: "orphaned", facts: facts{record: recordWith(wire.Policy{Orphan: true}), seen: here}, do: doLetGo, uid: "target-uid"},
		{
			name:  "orphaned, guarded",
			facts: facts{record: recordWith(wire.Policy{Orphan: true}), guarded: true, seen: here}, do: doLetGo, uid: "target-uid",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.facts.space = "s"
			d := decide(c.facts)
			if d.do != c.do || d.uid != c.uid || d.drift != c.drift || d.state != c.state || d.reason != c.reason {
				t.Errorf("got %+v", d)
			}
		})
	}
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
		f.proof = rapid.SampledFrom([]proof{proofUnneeded, proofGiven, proofUnasked, proofMissing}).Draw(t, "proof")
	}
	if kind := rapid.SampledFrom([]wantKind{"", wantPut, wantHold, wantConflict}).Draw(t, "kind"); kind != "" {
		f.want = &want{Kind: kind, Leaf: source{UID: "u", Digest: digest(content.Draw(t, "want")), Policy: anyPolicy.Draw(t, "policy")}}
		if kind != wantPut && rapid.Bool().Draw(t, "kept") {
			f.want.Kept = &source{UID: "u", Digest: digest(content.Draw(t, "kept content")), Policy: anyPolicy.Draw(t, "kept policy")}
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
		if f.proof.waits() && f.seen.presence == present && d.do != doNothing {
			t.Errorf("what is not proven is changed: %+v", d)
		}
		if f.proof.waits() && d.adopt {
			t.Errorf("what is not proven is adopted: %+v", d)
		}
		if f.proof == proofMissing && f.seen.presence == present && !f.seen.terminating && f.want != nil && f.want.object() != nil &&
			(d.state != wire.Waiting || d.reason != v1alpha1.ReasonLineageUnproven) {
			t.Errorf("what is not proven is not said to wait: %+v", d)
		}
		if f.seen.presence == foreign && !d.adopt && d.do != doLetGo && d.do != doNothing && d.do != doForget && d.do != doRemove {
			t.Errorf("a foreign object is touched: %+v", d)
		}
		if d.do == doNothing && d.state == "" && f.seen.presence != unseen && !(f.want == nil && f.record == nil && !f.settled) && f.proof != proofUnasked {
			t.Errorf("nothing is done and nothing said: %+v", d)
		}
	})
}

// checkPolicies sees that what is done is what the policies allow.
func checkPolicies(t *rapid.T, f facts, d decision) {
	if d.do == doRemove && f.record.Source.Policy.Orphan || d.do == doLetGo && !f.record.Source.Policy.Orphan {
		t.Errorf("what is recorded says otherwise: %+v", d)
	}
	if f.want == nil || f.want.object() == nil {
		return
	}
	p, s := f.want.object().Policy, f.want.object()
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
		f.record = &record{Space: f.space, Source: *f.want.object(), UID: "t9", Fields: 9}
		f.seen = observed{presence: present, uid: "t9", fields: 9}
		if d := decide(f); d.do != doNothing || d.state != wire.Applied {
			t.Errorf("after the apply: %+v", d)
		}
	})
}

func TestChoose(t *testing.T) {
	object, conflict := putWant("u", "a"), &want{Kind: wantConflict}
	for _, c := range []struct {
		name  string
		wants []spaceWant
		rec   *record
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
