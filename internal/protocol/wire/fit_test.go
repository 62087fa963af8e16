package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestFit: a report that is too large loses only its status, the message has the size, and a report
// within the limit does not change.
func TestFit(t *testing.T) {
	status := func(text string, n int) json.RawMessage {
		b, err := json.Marshal(map[string]string{"text": strings.Repeat(text, n)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	small := Report{UID: "u", State: Applied, Since: "2026-01-01T00:00:00Z", Status: status("x", 400<<10)}
	if got := small.Fit(); !reflect.DeepEqual(got, small) {
		t.Errorf("a report that fits is changed")
	}
	for name, r := range map[string]Report{
		"large":        {UID: "u", State: Failed, Reason: "Refused", Message: "no", Status: status("x", MaxReport), Completed: "c"},
		"escaped":      {UID: "u", State: Applied, Status: json.RawMessage(`"` + strings.Repeat("<", MaxReport/4) + `"`)},
		"long message": {UID: "u", State: Failed, Message: strings.Repeat("ü", MaxReport), Status: status("x", MaxReport)},
	} {
		got := r.Fit()
		if got.Status != nil || got.State != r.State || got.Reason != r.Reason || got.Completed != r.Completed || got.StatusBytes != len(r.Status) {
			t.Errorf("%s: it became %+v", name, got)
		}
		if size := fmt.Sprintf("status of %d bytes", len(r.Status)); name != "long message" && !strings.Contains(got.Message, size) {
			t.Errorf("%s: the message %q does not say %q", name, got.Message, size)
		}
		if b, err := json.Marshal(got); err != nil || len(b) > MaxReport {
			t.Errorf("%s: %d bytes are left: %v", name, len(b), err)
		}
		if again := got.Fit(); !reflect.DeepEqual(again, got) {
			t.Errorf("%s: another time it became %+v", name, again)
		}
	}
}

// TestFitObject: an object that is too large is omitted like a status.
func TestFitObject(t *testing.T) {
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", MaxReport) + `"}`)
	r := Report{UID: "u", State: Present, Owner: "apps/deployments/n/x", Object: large, Omitted: 3}
	got := r.Fit()
	if got.Object != nil || got.ObjectBytes != len(large) || !strings.Contains(got.Message, fmt.Sprintf("object of %d bytes", len(large))) ||
		got.Owner != r.Owner || got.Omitted != r.Omitted || got.StatusBytes != 0 {
		t.Errorf("it became %+v", got)
	}
	if again := got.Fit(); !reflect.DeepEqual(again, got) {
		t.Errorf("another time it became %+v", again)
	}
	r.Object = large[:0]
	if got := r.Fit(); !reflect.DeepEqual(got, r) {
		t.Errorf("a report that fits is changed")
	}
}

// TestClip: the results are one line of printable characters within the limit, and clipping them
// again does not change them.
func TestClip(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"as it is: ü, 語, 👍":          "as it is: ü, 語, 👍",
		"\x1b[2J\x1b]0;title\a":      "?[2J?]0;title?",
		"two\nlines\r\n\tand a tab":  "two lines   and a tab",
		"\u009b31m and \u202egnirts": "?31m and ?gnirts",
		"bad \xff\xfe bytes":         "bad ?? bytes",
		strings.Repeat("\x1b", 100):  strings.Repeat("?", 61) + "...",
		strings.Repeat("ü", 100):     strings.Repeat("ü", 30) + "...",
	} {
		got := Clip(text, 64)
		if got != want || Clip(got, 64) != got {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	escape := "\x1b[2J"
	r := Report{State: State(escape), Reason: escape, Message: escape, Since: escape, Completed: escape, UID: escape}.Fit()
	if b, err := json.Marshal(r); err != nil || strings.Contains(string(b), "u001b") {
		t.Errorf("a report keeps what terminals take for commands: %s %v", b, err)
	}
}
