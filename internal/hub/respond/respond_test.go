package respond

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"orrery.dev/orrery/internal/hub/storage/etcd"
)

// TestErrors: errors of the log become responses that clients handle correctly.
func TestErrors(t *testing.T) {
	for want, c := range map[string]struct {
		err  error
		code int
	}{
		"may have been done": {fmt.Errorf("write: %w", rpctypes.ErrTimeout), http.StatusGatewayTimeout},
		"space":              {fmt.Errorf("write: %w", rpctypes.ErrNoSpace), http.StatusInsufficientStorage},
		etcd.ErrFull.Error(): {etcd.ErrFull, http.StatusInsufficientStorage},
	} {
		w := httptest.NewRecorder()
		Error(w, httptest.NewRequest(http.MethodPut, "/", http.NoBody), c.err)
		if w.Code != c.code || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%v is answered with %d %s", c.err, w.Code, w.Body)
		}
		if again := w.Header().Get("Retry-After"); again != "" {
			t.Errorf("%v is to be tried again after %s", c.err, again)
		}
	}
}
