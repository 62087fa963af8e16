package cli

import (
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/ask"
)

// TestWhySaysWhatIsLeftOut shows that `orrery why` names the limits that a status
// passes which is not returned.
func TestWhySaysWhatIsLeftOut(t *testing.T) {
	var out strings.Builder
	const left = `exceeded limits of space "s": requested: objectBytes=9000, limited: objectBytes=4096`
	if err := describeWhy(&out, ask.Why{Place: &ask.PlaceStatus{Location: "a", State: "Applied", StatusLeftOut: left}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "reported by a: Applied\nits status is not returned: "+left+"\n") {
		t.Errorf("why prints:\n%s", &out)
	}
}
