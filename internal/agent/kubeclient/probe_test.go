package kubeclient

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestProbe checks that the probe fails for a target that does not respond, that serves no API,
// or whose discovery cannot be decoded.
func TestProbe(t *testing.T) {
	const core, groups = `{"kind":"APIVersions","versions":["v1"]}`, `{"kind":"APIGroupList","groups":[{"name":"apps"}]}`
	for name, c := range map[string]struct {
		status       int
		core, groups string
		broken       string
	}{
		"whole":        {200, core, groups, ""},
		"no groups":    {200, core, `{"kind":"APIGroupList","groups":[]}`, "serves none"},
		"no core":      {200, `{}`, groups, "serves none"},
		"garbage":      {200, core, "<html>", "decode answer"},
		"unavailable":  {503, "", "", "discover the core API"},
		"unauthorized": {401, "", "", "discover the core API"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(c.status)
				body := map[string]string{"/api": c.core, "/apis": c.groups}[r.URL.Path]
				if _, err := io.WriteString(w, body); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			client, err := New(&rest.Config{Host: server.URL}, "test", 1, func(string, int) {}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			err = client.Probe(t.Context())
			if (err == nil) != (c.broken == "") || err != nil && !strings.Contains(err.Error(), c.broken) {
				t.Errorf("the probe returned %v, want an error with %q", err, c.broken)
			}
		})
	}
}
