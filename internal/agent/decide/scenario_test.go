package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/scenario"
)

// given are the facts of a scenario, as the file has them. The UID of the object at the target is live unless
// the file has another.
type given struct {
	// Desired is the desired entry; none: the object is not desired.
	Desired *givenEntry `json:"desired,omitempty"`
	// Applied is the record of the last apply; none: there is no record.
	Applied *givenApplied `json:"applied,omitempty"`
	Live    givenLive     `json:"live"`
	// Known lists the boolean facts that are true.
	Known []string `json:"known,omitempty"`
	// Completed is the state in which the desired Job or Pod ended.
	Completed string `json:"completed,omitempty"`
	// Proof reports whether the live object was written from the hub's log.
	Proof string `json:"proof,omitempty"`
	// Again is the remaining wait before an apply that admission changed is repeated, Lingers that of the report
	// of an orphaned object.
	Again   string `json:"again,omitempty"`
	Lingers string `json:"lingers,omitempty"`
	// Halted is the reason for which the agent must not change anything; empty: it may. Refused is the reason of
	// a refusal in the last report of the object.
	Halted  string `json:"halted,omitempty"`
	Refused string `json:"refused,omitempty"`
}

type givenEntry struct {
	UID     string `json:"uid,omitempty"`
	Content string `json:"content,omitempty"`
	Log     string `json:"log,omitempty"`
	wire.Policy
	// First is true if the hub has no report of the object yet, and waits for one before the agent creates it.
	First bool `json:"first,omitempty"`
	// Held and Conflict are set if the hub sends no object: the rule that failed, or the space that has the
	// identity. The other fields then describe the object that stays applied.
	Held     string `json:"held,omitempty"`
	Conflict string `json:"conflict,omitempty"`
}

type givenApplied struct {
	Space   key.Space `json:"space,omitempty"`
	UID     string    `json:"uid"`
	Content string    `json:"content"`
	Log     string    `json:"log,omitempty"`
	// Mutated are the fields that admission changed.
	Mutated string `json:"mutated,omitempty"`
	wire.Policy
}

type givenLive struct {
	// Is is the existence of the object: unseen, unserved, blind, absent, present, foreign.
	Is  string `json:"is"`
	UID string `json:"uid,omitempty"`
	// Changed is true if our fields differ from the result of the last apply.
	Changed     bool   `json:"changed,omitempty"`
	Terminating bool   `json:"terminating,omitempty"`
	Unmarked    bool   `json:"unmarked,omitempty"`
	Taken       bool   `json:"taken,omitempty"`
	Owned       bool   `json:"owned,omitempty"`
	Released    bool   `json:"released,omitempty"`
	Log         string `json:"log,omitempty"`
}

const (
	liveUID    = "live"
	leftFields = 7
)

var (
	presences = []string{"unseen", "unserved", "blind", "absent", "present", "foreign"}
	proofs    = []string{"unneeded", "given", "unasked", "missing"}
	actions   = []string{
		"do nothing", "apply", "look", "note", "mark", "inspect", "refresh", "remove", "let go", "forget", "hurry", "verify the kind", "claim",
	}
)

// TestDecide runs testdata/*.txtar. The files of an archive are pairs: the facts of a case, under its name, and
// the decision: the action, its object, and the report.
func TestDecide(t *testing.T) {
	scenario.Run(t, func(t *testing.T) scenario.Step {
		var current *given
		t.Cleanup(func() {
			if current != nil {
				t.Error("the last case has no decision")
			}
		})
		return func(words []string, data []byte) (string, bool) {
			decides := len(words) == 1 && words[0] == "decision"
			if decides != (current != nil) {
				t.Fatalf("%q: the facts of a case and a decision come in turn", words)
			}
			if decides {
				defer func() { current = nil }()
				return current.decide(t).text(), true
			}
			current = &given{}
			if err := yaml.UnmarshalStrict(data, current); err != nil {
				t.Fatalf("%s: %v", words, err)
			}
			return "", false
		}
	})
}

// decide returns the decision about a case.
func (g *given) decide(t *testing.T) Decision {
	f := g.facts(t)
	d := Decide(f)
	if g.Halted == "" {
		return d
	}
	var before *wire.Report
	if g.Refused != "" {
		before = &wire.Report{State: wire.Failed, Reason: g.Refused, Message: "no", UID: g.Desired.UID}
	}
	return Halted(f, d, before, g.Halted)
}

// index returns the position of a word in a list.
func index(t *testing.T, all []string, word string) int {
	t.Helper()
	for i, w := range all {
		if w == word {
			return i
		}
	}
	t.Fatalf("%q is none of %q", word, all)
	return 0
}

func waits(t *testing.T, text string) time.Duration {
	t.Helper()
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (g given) facts(t *testing.T) Facts {
	t.Helper()
	f := Facts{
		Space: "s", Completed: g.Completed, Again: waits(t, g.Again), Lingers: waits(t, g.Lingers),
		Seen: Observed{
			Existence: Existence(index(t, presences, g.Live.Is)), UID: g.Live.UID, Terminating: g.Live.Terminating, Unmarked: g.Live.Unmarked,
			Taken: g.Live.Taken, Owned: g.Live.Owned, Released: g.Live.Released, Log: ownership.ParsePair(g.Live.Log),
		},
	}
	if f.Seen.Existence == Present {
		f.Seen.Fields = leftFields
		if g.Live.Changed {
			f.Seen.Fields++
		}
	}
	if f.Seen.UID == "" && (f.Seen.Existence == Present || f.Seen.Existence == Foreign) {
		f.Seen.UID = liveUID
	}
	if g.Proof != "" {
		f.Proof = ownership.Proof(index(t, proofs, g.Proof))
	}
	if g.Desired != nil {
		f.Want = g.Desired.want()
	}
	if a := g.Applied; a != nil {
		f.Record = &store.Record{
			Space: "s", UID: liveUID, Fields: leftFields, Version: "v1", Kind: "ConfigMap",
			Source: store.Source{UID: a.UID, Digest: digest(a.Content), Policy: a.Policy, Log: ownership.ParsePair(a.Log)},
		}
		if a.Space != "" {
			f.Record.Space = a.Space
		}
		if a.Mutated != "" {
			f.Record.Mutated = &store.Mutation{Fields: a.Mutated}
		}
	}
	words := map[string]*bool{
		"former": &f.Former, "looked": &f.Inspected, "guarded": &f.Guarded, "settled": &f.DesiredComplete, "reported": &f.Reported, "traced": &f.Traced,
		"pods": &f.Pods, "overdue": &f.Overdue, "remembered": &f.Remembered,
	}
	for _, word := range g.Known {
		if words[word] == nil {
			t.Fatalf("%q is no fact", word)
		}
		*words[word] = true
	}
	return f
}

// want returns the entry. An entry that is held or in conflict keeps the fields of the object that stays
// applied.
func (e *givenEntry) want() *store.Want {
	source := store.Source{UID: e.UID, Digest: digest(e.Content), Policy: e.Policy, Log: ownership.ParsePair(e.Log)}
	w := &store.Want{Kind: store.WantPut, Leaf: source, Version: "v1", ObjectKind: "ConfigMap", Unannounced: e.First}
	switch {
	case e.Held != "":
		w.Kind, w.Detail = store.WantHold, e.Held
	case e.Conflict != "":
		w.Kind, w.Detail = store.WantConflict, e.Conflict
	default:
		return w
	}
	w.Leaf = store.Source{UID: e.UID}
	if e.Content != "" {
		w.Kept = &source
	}
	return w
}

// text returns a decision as the scenarios have it.
func (d Decision) text() string {
	var b strings.Builder
	b.WriteString(actions[d.Do])
	if d.UID != "" {
		b.WriteString(" " + d.UID)
	}
	for _, flag := range []struct {
		name  string
		isSet bool
	}{{"as drift", d.Drift}, {"adopted", d.Adopt}, {"again", d.Again}, {"what has drifted stays", d.Left}} {
		if flag.isSet {
			b.WriteString(", " + flag.name)
		}
	}
	if d.Proof != ownership.Unneeded { // missing is counted and reported, unasked is not
		b.WriteString(", it waits for proof, " + proofs[d.Proof])
	}
	if d.Retry > 0 {
		fmt.Fprintf(&b, ", look again in %s", d.Retry)
	}
	b.WriteString("\n")
	if d.State != "" || d.Reason != "" {
		b.WriteString(strings.TrimSpace(fmt.Sprintf("%s %s", d.State, d.Reason)))
		if d.Message != "" {
			b.WriteString(": " + d.Message)
		}
		b.WriteString("\n")
	}
	return b.String()
}
