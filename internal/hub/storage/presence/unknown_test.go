package presence

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// older is a hub whose version does not know all fields of what newer agents and hubs write.
type older struct {
	t *testing.T
	*Writer
	rows    *table.Writer
	session key.Session
}

func newOlder(t *testing.T) *older {
	t.Helper()
	rows := table.New(table.Config{WindowSteps: 1000, WindowBytes: 1 << 20})
	rows.Reset(1, nil)
	o := &older{t, NewWriter(nil, rows.Table, nil, slog.New(slog.DiscardHandler)), rows, key.WholeOf("l")}
	o.put(o.session.Location.Key(), `{"metadata":{"uid":"u"}}`)
	return o
}

func (o *older) put(k, value string) {
	o.t.Helper()
	rev := o.rows.Rev() + 1
	if err := o.rows.Apply(rev, []table.Update{{Key: k, CreateRev: rev, ModRev: rev, Value: []byte(value)}}); err != nil {
		o.t.Fatal(err)
	}
}

// sent is a status that an agent sends as a text.
func (o *older) sent(text string) Patch {
	o.t.Helper()
	var status wire.AgentStatus
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		o.t.Fatal(err)
	}
	return Patch{Status: &status, Text: []byte(text)}
}

// writes has the hub write a patch, and compares the value in the log.
func (o *older) writes(what string, p Patch, want string) {
	o.t.Helper()
	o.Say(o.session, p)
	state := o.rows.Snapshot()
	if c, ok := o.patched(state, o.session, o.take(false).patches[o.session]); ok {
		o.put(c.Key, string(c.Value))
	}
	if got := string(o.rows.Snapshot().Get(o.session.StatusKey()).Value); got != want {
		o.t.Errorf("%s: the log has\n%s, want\n%s", what, got, want)
	}
}

// TestManyUnknownFields: a status with very many fields costs a hub no work for each of them, and none is kept.
func TestManyUnknownFields(t *testing.T) {
	o := newOlder(t)
	many := []string{`"version":"v9"`}
	for i := range 20_000 {
		many = append(many, fmt.Sprintf(`"news-%05d":1`, i))
	}
	o.writes("very many fields", o.sent("{"+strings.Join(many, ",")+"}"), `{"uid":"u","status":{"version":"v9"}}`)
}

// TestUnknownFieldsStay: a hub keeps what it does not know, with the bytes that it was written with: in a status
// of a newer agent, and in a value that a newer hub has written. What is too large, or could be read in two ways,
// is left out.
func TestUnknownFieldsStay(t *testing.T) {
	o := newOlder(t)
	refused, none := "v0", ""
	sent := `{"version":"v9","cluster":{"state":"Available","zone":"a"},"news":{"b":1,"a":[2.50]}}`
	o.writes("a newer agent", o.sent(sent), `{"uid":"u","status":`+sent+`}`)
	o.writes("a word of the hub itself", Patch{Refused: &refused}, `{"uid":"u","status":`+sent+`,"refused":"v0"}`)
	o.put(o.session.StatusKey(), `{"uid":"u","hubs":[1],"status":`+sent+`,"refused":"v0"}`) // a newer hub
	o.writes("the same of another hub's", Patch{Refused: &none}, `{"uid":"u","hubs":[1],"status":`+sent+`}`)
	o.writes("an older agent", o.sent(`{"version":"v1"}`), `{"uid":"u","hubs":[1],"status":{"version":"v1"}}`)

	o.writes("a list of APIs, and another spelling", o.sent(`{"Version":"v2","apis":[{"groupVersion":"v1"}],"APIS":[],"news":1}`),
		`{"uid":"u","hubs":[1],"status":{"version":"v2","news":1}}`)
	long := strings.Repeat("x", maxText+1)
	o.writes("a text that is cut", o.sent(`{"halted":"`+long+`","news":1}`),
		`{"uid":"u","hubs":[1],"status":{"halted":"`+wire.Clip(long, maxText)+`","news":1}}`)
	o.writes("a field that is there twice", o.sent(`{"version":"v3","news":1,"news":2}`), `{"uid":"u","hubs":[1],"status":{"version":"v3"}}`)
	o.writes("what is too large", o.sent(`{"version":"v4","news":"`+strings.Repeat("x", maxStatus)+`"}`), `{"uid":"u","hubs":[1],"status":{"version":"v4"}}`)

	o.put(o.session.StatusKey(), `{"uid":"another","hubs":[1],"status":`+sent+`}`)
	o.writes("another location of the name", o.sent(`{"version":"v5"}`), `{"uid":"u","status":{"version":"v5"}}`)
}
