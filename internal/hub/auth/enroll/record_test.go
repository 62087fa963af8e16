package enroll

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

const (
	edge = key.Location("edge1")
	uid  = "u1"
)

var noon = time.Unix(1_900_000_000, 0)

// joined returns a record after a join with a key, the token, and the credential.
func joined(t *testing.T, r Record, keyDigest string) (Record, string, Credential) {
	t.Helper()
	return joinedAt(t, noon, r, keyDigest)
}

func joinedAt(t *testing.T, now time.Time, r Record, keyDigest string) (Record, string, Credential) {
	t.Helper()
	token, r := r.WithJoin(edge, now.Add(time.Hour))
	c, r, err := r.Trade(edge, token, keyDigest, now)
	if err != nil {
		t.Fatal(err)
	}
	return r, token, c
}

func TestJoinTokens(t *testing.T) {
	token, r := Record{Location: uid}.WithJoin(edge, noon.Add(time.Hour))
	other, _ := Record{Location: uid}.WithJoin(edge, noon.Add(time.Hour))
	if l, _, ok := TokenOf(token); !ok || l != edge {
		t.Fatalf("token is of %q, %v", l, ok)
	}
	_, secret, _ := strings.Cut(token, ".")
	if strings.Contains(string(r.Encode()), secret) {
		t.Fatal("the record holds the secret")
	}
	if back := ParseRecord(r.Encode(), uid); *back.Join != *r.Join {
		t.Fatalf("it is read as %+v", back)
	}
	_, used, _ := r.Trade(edge, token, "k1", noon)
	_, replaced := r.WithJoin(edge, noon.Add(time.Hour))
	for what, c := range map[string]struct {
		r         Record
		token     string
		keyDigest string
		now       time.Time
		want      error
	}{
		"good":                 {r, token, "k1", noon, nil},
		"at the last moment":   {r, token, "k1", noon.Add(time.Hour - time.Second), nil},
		"expired":              {r, token, "k1", noon.Add(time.Hour), ErrJoinExpired},
		"another's":            {r, other, "k1", noon, ErrUnknownJoin},
		"guessed":              {r, joinPrefix + "edge1.guess", "k1", noon, ErrUnknownJoin},
		"empty":                {r, joinPrefix + "edge1.", "k1", noon, ErrUnknownJoin},
		"of another location":  {r, strings.Replace(token, "edge1", "edge2", 1), "k1", noon, ErrUnknownJoin},
		"without the prefix":   {r, strings.TrimPrefix(token, joinPrefix), "k1", noon, ErrUnknownJoin},
		"none was made":        {Record{Location: uid}, token, "k1", noon, ErrUnknownJoin},
		"made again":           {ParseRecord(r.Encode(), "u2"), token, "k1", noon, ErrUnknownJoin},
		"replaced":             {replaced, token, "k1", noon, ErrUnknownJoin},
		"used":                 {used, token, "k2", noon, ErrJoinUsed},
		"its answer was lost":  {used, token, "k1", noon.Add(2 * time.Hour), nil},
		"revoked":              {r.Revoke(Revocation{}), token, "k1", noon, ErrUnknownJoin},
		"used and revoked":     {used.Revoke(Revocation{}), token, "k1", noon, ErrUnknownJoin},
		"an unreadable record": {ParseRecord([]byte("garbage"), uid), token, "k1", noon, ErrUnknownJoin},
	} {
		if got, _, err := c.r.Trade(edge, c.token, c.keyDigest, c.now); !errors.Is(err, c.want) || err == nil && (got.Number != uint64(c.now.Unix()) && !strings.HasPrefix(what, "its answer") || got.Joined != got.Number || got.Key != "k1" || got.UID != uid) {
			t.Errorf("%s: %+v, %v; want %v", what, got, err, c.want)
		}
	}
}

// TestJudge goes through the life of an enrolment.
func TestJudge(t *testing.T) {
	r, _, first := joined(t, Record{Location: uid}, "k1")
	check := func(what string, r Record, c Credential, news bool, want error) {
		t.Helper()
		if n, err := r.Check(c); n != news || !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, %v; want %v, %v", what, n, err, news, want)
		}
	}
	check("joined", r, first, false, nil)
	second, r, err := r.Renew(first, "k2")
	if err != nil || second.Number != first.Number+1 || second.Joined != first.Joined {
		t.Fatalf("renewed: %+v, %v", second, err)
	}
	check("former", r, first, false, nil)
	check("new", r, second, true, nil)
	if again, same, err := r.Renew(first, "k2"); err != nil || again != second || same.Issued != r.Issued {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	check("of another key", r, Credential{UID: uid, Number: second.Number, Joined: second.Joined, Key: "kx"}, false, ErrSpent)
	before := r
	r = r.Use(second)
	check("former, after the new was used", r, first, false, ErrSpent)
	check("new, used", r, second, false, nil)
	if _, _, err := r.Renew(first, "k3"); !errors.Is(err, ErrSpent) {
		t.Errorf("renewed by a spent one: %v", err)
	}
	check("a copy of the log from before it was used", before, second, true, nil)
	check("no record at all", Record{Location: uid}, second, true, nil)
	if restored := (Record{Location: uid}).Use(second); restored.Issued != second.Mark() || restored.Used != second.Mark() {
		t.Errorf("after a restore: %+v", restored)
	}
	check("another location", ParseRecord(r.Encode(), "u2"), second, false, ErrOther)
	revoked := r.Revoke(Revocation{Time: noon, Message: "x"}).Revoke(Revocation{Reused: true})
	if revoked.Revoked.Reused {
		t.Error("the first reason is lost")
	}
	check("revoked", revoked, second, false, ErrRevoked)
	again, _, anew := joined(t, revoked, "k9")
	check("joined anew", again, anew, false, nil)
	check("superseded", again, second, false, ErrSuperseded)
	check("superseded, not spent", again, first, false, ErrSuperseded)
	check("joined anew, at a copy of the log from before", r, anew, true, nil)
	check("superseded, at that copy", r.Use(anew), second, false, ErrSuperseded)
}

// TestReadmitted lets in again the agent that has shown a spent credential, after an operator has
// readmitted it. No other credential is good by that, and an answer that is lost is given again.
func TestReadmitted(t *testing.T) {
	r, _, first := joined(t, Record{Location: uid}, "k1")
	second, r, err := r.Renew(first, "k2")
	if err != nil {
		t.Fatal(err)
	}
	r = r.Use(second)
	if _, err := r.Readmit(); !errors.Is(err, ErrNoReuse) {
		t.Errorf("readmitted without a cause: %v", err)
	}
	if _, err := r.Revoke(Revocation{Time: noon}).Readmit(); !errors.Is(err, ErrNoReuse) {
		t.Errorf("readmitted after a revocation by an operator: %v", err)
	}
	locked := r.Revoke(Revocation{Time: noon, Reused: true, Shown: new(first.Mark())})
	r, err = locked.Readmit()
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, r Record, c Credential, want error) {
		t.Helper()
		if _, err := r.Check(c); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	check("readmitted", r, first, ErrReadmitted)
	check("the renewed one", r, second, ErrRevoked)
	check("of another key", r, Credential{UID: uid, Number: first.Number, Joined: first.Joined, Key: "kx"}, ErrRevoked)
	if back := ParseRecord(r.Encode(), uid); !back.Readmitted(first) || back.Readmitted(second) {
		t.Errorf("it is read as %+v", back)
	}
	anew, r := r.Rejoin(first, "k3", noon)
	if again, same := r.Rejoin(first, "k3", noon.Add(time.Hour)); again != anew || same.Issued != r.Issued {
		t.Errorf("the answer is lost: %+v, then %+v", anew, again)
	}
	check("its answer was lost", r, first, ErrReadmitted)
	check("the renewed one, after that", r, second, ErrSuperseded)
	check("the new one", r, anew, nil)
	r = r.Use(anew)
	check("the new one, used", r, anew, nil)
	check("readmitted, after the new one was used", r, first, ErrSuperseded)
	if _, next, err := r.Renew(anew, "k4"); err != nil || next.Revoked != nil {
		t.Errorf("renewed: %v", err)
	}
	readmitted, err := locked.Readmit()
	if err != nil {
		t.Fatal(err)
	}
	if readmitted.Revoke(Revocation{}).Readmitted(first) {
		t.Error("a revocation leaves the agent in")
	}
}

// TestJoinsAfterARestore: the agent that joins at a copy of the log is the location's from then on, and
// not the one that had joined, or was given credentials, since the copy was made.
func TestJoinsAfterARestore(t *testing.T) {
	older, _, _ := joinedAt(t, noon, Record{Location: uid}, "k1")
	lost, _, stolen := joinedAt(t, noon.Add(time.Hour), older, "k2")
	for i := range 5 {
		next, r, err := lost.Renew(stolen, fmt.Sprint("stolen", i))
		if err != nil {
			t.Fatal(err)
		}
		lost, stolen = r, next
	}
	restored, _, legitimate := joinedAt(t, noon.Add(2*time.Hour), older.Revoke(Revocation{Time: noon}), "k3")
	if _, err := restored.Check(stolen); !errors.Is(err, ErrSuperseded) {
		t.Errorf("who was revoked gets in again: %v", err)
	}
	if _, err := restored.Check(legitimate); err != nil {
		t.Errorf("who joined does not: %v", err)
	}
	// Without a join the copy knows what was issued since.
	if news, err := older.Check(stolen); !news || err != nil {
		t.Errorf("after the restore: %v", err)
	}
}

// TestLastingTokens: a token of a former version is traded, and is spent when what it
// was traded for is used.
func TestLastingTokens(t *testing.T) {
	r := ParseRecord([]byte(`{"location":"u1","hash":"`+hash("s")+`","created":"2026-01-01T00:00:00Z"}`), uid)
	const token = "edge1.s"
	for _, bad := range []string{"edge1.t", "edge1.", "edge1", "", joinPrefix + "edge1.s"} {
		if err := r.CheckLasting(bad); bad != joinPrefix+"edge1.s" && err == nil {
			t.Errorf("%q is good", bad)
		}
		if _, _, err := r.Trade(edge, bad, "k", noon); err == nil {
			t.Errorf("%q is traded", bad)
		}
	}
	lost, r, err := r.Trade(edge, token, "k1", noon)
	if err != nil || lost.Number != 1 {
		t.Fatalf("%+v, %v", lost, err)
	}
	c, r, err := r.Trade(edge, token, "k2", noon)
	if err != nil || c.Number != 2 || c.Joined != 1 {
		t.Fatalf("asked again with another key: %+v, %v", c, err)
	}
	if r.CheckLasting(token) != nil {
		t.Error("it is spent before what it was traded for is used")
	}
	if news, err := r.Check(c); !news || err != nil {
		t.Fatal(err)
	}
	r = r.Use(c)
	if r.CheckLasting(token) == nil {
		t.Error("it is not spent")
	}
	if _, _, err := r.Trade(edge, token, "k2", noon); err == nil {
		t.Error("it is traded again")
	}
	if _, err := r.Check(lost); !errors.Is(err, ErrSpent) {
		t.Errorf("the first answer: %v", err)
	}
}

// keeper is an agent, or a thief with a copy of its disk.
type keeper struct {
	name string
	// These fields are on the disk.
	credential *Credential
	pending    string
	keys       int
}

// enrolling is a hub's record, with copies of it, and pending requests.
type enrolling struct {
	r      *rand.Rand
	record Record
	copies []Record
	// late are delayed requests.
	late []func()
	log  []string
}

func (w *enrolling) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// show uses the credential of a keeper.
func (w *enrolling) show(k *keeper) error {
	news, err := w.record.Check(*k.credential)
	if err == nil && news {
		w.record = w.record.Use(*k.credential)
	}
	w.logf("%s shows %d: %v; %+v", k.name, k.credential.Number, err, w.record)
	return err
}

// renew requests the next credential. The request or the response may be lost, or the request may
// arrive late or twice.
func (w *enrolling) renew(k *keeper) error {
	if k.pending == "" {
		k.keys++
		k.pending = fmt.Sprintf("%s-%d", k.name, k.keys)
	}
	c, keyDigest := *k.credential, k.pending
	renew := func() (Credential, error) {
		made, next, err := w.record.Renew(c, keyDigest)
		w.record = next
		w.logf("%s renews %d for %s: %d, %v; %+v", k.name, c.Number, keyDigest, made.Number, err, w.record)
		return made, err
	}
	switch w.r.IntN(5) {
	case 0: // lost on its way, or late
		w.late = append(w.late, func() { _, _ = renew() })
		return nil
	case 1: // the answer is lost
		_, err := renew()
		return err
	case 2: // twice
		w.late = append(w.late, func() { _, _ = renew() })
	}
	made, err := renew()
	if err != nil {
		return err
	}
	k.credential, k.pending = &made, "" // at once on the disk
	return nil
}

// TestEnrolmentModel takes an agent through lost, late and repeated requests, crashes and restored
// logs: its credential is always valid. Then a thief gets a copy of its disk: once one of the two
// has used the next credential, the use of the other one is detected.
func TestEnrolmentModel(t *testing.T) {
	for seed := range seeds.All(t, 4000) {
		w := &enrolling{r: rand.New(rand.NewPCG(uint64(seed), 1))}
		agent := &keeper{name: "agent"}
		token, r := Record{Location: uid}.WithJoin(edge, noon.Add(time.Hour))
		w.record = r
		for agent.credential == nil { // the answer may be lost
			c, next, err := w.record.Trade(edge, token, "agent-0", noon)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(w.log, "\n"))
			}
			if w.record = next; w.r.IntN(2) == 0 {
				agent.credential = &c
			}
		}
		for range 30 {
			if err := w.step(agent); err != nil {
				t.Fatalf("seed %d: the agent is refused: %v\n%s", seed, err, strings.Join(w.log, "\n"))
			}
		}
		w.thief(t, uint64(seed), agent)
	}
}

// step is a random event without a thief.
func (w *enrolling) step(agent *keeper) error {
	switch w.r.IntN(8) {
	case 0, 1, 2:
		return w.show(agent)
	case 3, 4:
		return w.renew(agent)
	case 5:
		if len(w.late) > 0 {
			i := w.r.IntN(len(w.late))
			do := w.late[i]
			w.late = append(w.late[:i:i], w.late[i+1:]...)
			do()
		}
	case 6:
		w.copies = append(w.copies, w.record)
	case 7:
		if len(w.copies) > 0 && w.r.IntN(3) == 0 {
			w.record = w.copies[w.r.IntN(len(w.copies))]
			w.logf("restored: %+v", w.record)
		}
	}
	return nil
}

// thief lets an agent and a thief continue with copies of one disk.
func (w *enrolling) thief(t *testing.T, seed uint64, agent *keeper) {
	t.Helper()
	c := *agent.credential
	thief := &keeper{name: "thief", credential: &c}
	w.late = nil
	both := []*keeper{agent, thief}
	var ahead *keeper // the keeper that has used the next credential
	for range 200 {
		k := both[w.r.IntN(2)]
		before := *k.credential
		var err error
		if w.r.IntN(2) == 0 {
			err = w.renew(k)
		} else {
			err = w.show(k)
			if err == nil && before != c {
				if ahead != nil && ahead != k {
					t.Fatalf("seed %d: %s goes on after %s\n%s", seed, k.name, ahead.name, strings.Join(w.log, "\n"))
				}
				ahead = k
			}
		}
		if err != nil {
			if !errors.Is(err, ErrSpent) {
				t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(w.log, "\n"))
			}
			return // found out
		}
	}
	t.Fatalf("seed %d: nobody noticed\n%s", seed, strings.Join(w.log, "\n"))
}

// TestJudgeFormer: of a replaced authority, only credentials in the record are valid.
func TestJudgeFormer(t *testing.T) {
	r := Record{Location: "u", Joined: 3, Issued: Mark{5, "new"}, Used: Mark{4, "old"}}
	for what, c := range map[string]struct {
		credential Credential
		want       error
	}{
		"used":             {Credential{UID: "u", Number: 4, Joined: 3, Key: "old"}, nil},
		"issued":           {Credential{UID: "u", Number: 5, Joined: 3, Key: "new"}, nil},
		"another key":      {Credential{UID: "u", Number: 5, Joined: 3, Key: "made"}, ErrSpent},
		"newer":            {Credential{UID: "u", Number: 6, Joined: 3, Key: "made"}, ErrSpent},
		"spent":            {Credential{UID: "u", Number: 3, Joined: 3, Key: "older"}, ErrSpent},
		"of a later join":  {Credential{UID: "u", Number: 5, Joined: 4, Key: "new"}, ErrSuperseded},
		"another location": {Credential{UID: "v", Number: 4, Joined: 3, Key: "old"}, ErrOther},
	} {
		if err := r.CheckFormer(c.credential); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if err := r.Revoke(Revocation{}).CheckFormer(Credential{UID: "u", Number: 4, Joined: 3, Key: "old"}); !errors.Is(err, ErrRevoked) {
		t.Errorf("revoked: %v", err)
	}
}

// TestRecordsKeepFields: a record that is written anew keeps what a newer version of the hub has
// noted in it, unless it is of another location.
func TestRecordsKeepFields(t *testing.T) {
	r, _, c := joined(t, Record{Location: uid}, "key")
	kept := strings.Replace(string(r.Encode()), `{"location"`, `{"newer":{"z":1e2},"location"`, 1)
	now := ParseRecord([]byte(kept), uid).Use(c)
	over := now.EncodeOver([]byte(kept))
	if !strings.Contains(string(over), `"newer":{"z":1e2}`) || ParseRecord(over, uid).Used != now.Used || now.Used.Number == 0 {
		t.Errorf("written anew: %s", over)
	}
	if again := now.EncodeOver(over); string(again) != string(over) {
		t.Errorf("without a change %s becomes %s", over, again)
	}
	for _, other := range []string{"", "{", strings.Replace(kept, uid, "u2", 1)} {
		if got := now.EncodeOver([]byte(other)); string(got) != string(now.Encode()) {
			t.Errorf("over %q: %s", other, got)
		}
	}
}
