package hub

import (
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/key"
)

// Who was given a token can use it: that the table does not have it yet is
// nobody's concern.
func TestTokenIsGoodAtOnce(t *testing.T) {
	r := start(t, t.TempDir())
	const location = key.Location("paris")
	r.addLocation(location, nil)
	connected := r.join(location)
	for range 100 {
		next := r.join(location)
		next.client = connected.client // so that no handshake gives the table time
		resp := next.do(t.Context(), http.MethodPost, string(location)+"/reports", strings.NewReader(""))
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("a new token: %s", resp.Status)
		}
	}
}
