package bearer

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestTokens(t *testing.T) {
	id := NewID()
	text, value, err := New(id, Record{User: "jane", Expires: time.Unix(9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	got, secret, ok := Parse(text)
	if !ok || got != id || len(secret) < 26 {
		t.Fatalf("%q is taken apart into %q and a secret of %d characters", text, got, len(secret))
	}
	if bytes.Contains(value, []byte(secret)) {
		t.Error("the record has the secret")
	}
	r, err := Read(value)
	if err != nil || r.User != "jane" || !r.Matches(secret) {
		t.Errorf("read %+v, %v", r, err)
	}
	for _, other := range []string{"", secret[1:], secret + "A", strings.ToLower(secret)} {
		if r.Matches(other) {
			t.Errorf("matches %q, too", other)
		}
	}
	if (&Record{}).Matches("") {
		t.Error("a record without a hash matches")
	}
}

func TestForeignTokens(t *testing.T) {
	for _, text := range []string{
		"", "orr_t_", "orr_t_.", "orr_t_abcdefghijkl", "orr_t_abc.X", "orr_t_ABCDEFGHIJKL.X", "orr_t_abcdefghij/l.X", "orr_t_../../../../.X",
		"orr_b_abcdefghijkl.X", "edge.ABCDEF", "ey.ey.x",
	} {
		if id, _, ok := Parse(text); ok {
			t.Errorf("%q is the token %q", text, id)
		}
	}
}
