package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// kubeconfigOf writes a kubeconfig of the space root of a hub, and returns its name.
func kubeconfigOf(t *testing.T, hub string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: hub, cluster: {server: "%s/spaces/root"}}]
users: [{name: me, user: {token: "token-x"}}]
contexts: [{name: hub, context: {cluster: hub, user: me}}]
current-context: hub
`, hub)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// command runs a command and returns its exit code and output.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), append([]string{"orrery"}, args...), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &o, ErrOut: &e})
	return code, o.String(), e.String()
}

// spacesHub is a hub of the spaces good, broken and late. It fails for the space broken. For the
// space away, it redirects to an address where nothing answers.
func spacesHub(t *testing.T, away string) *httptest.Server {
	t.Helper()
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := func(v any) {
			if err := json.NewEncoder(w).Encode(v); err != nil {
				t.Error(err)
			}
		}
		for _, space := range []key.Space{"root", "good", "broken", "late"} {
			if r.URL.Path != route.Question(space).Path(route.Status) {
				continue
			}
			switch string(space) {
			case away:
				http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			case "broken":
				w.WriteHeader(http.StatusInternalServerError)
				answer(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": "out of order"})
			default:
				answer(queries.SpaceStatus{Space: space, Placements: []queries.PlacementTotal{{Name: key.PlacementRef("p-" + string(space))}}})
			}
			return
		}
		var items []any
		for _, name := range []string{"good", "broken", "late"} {
			items = append(items, map[string]any{"metadata": map[string]any{"name": name}})
		}
		answer(map[string]any{"items": items})
	}))
	t.Cleanup(hub.Close)
	return hub
}

// TestStatusOfAllSpacesWithFailures shows the statuses of the other spaces if some cannot be read. The exit
// code is that of an error, which names the failed spaces.
func TestStatusOfAllSpacesWithFailures(t *testing.T) {
	file := kubeconfigOf(t, spacesHub(t, "").URL)
	code, out, errOut := command(t, "status", "-A", "--kubeconfig", file)
	if code != ExitError || !strings.Contains(out, "p-good") || !strings.Contains(out, "p-late") {
		t.Errorf("exit code %d, output %q", code, out)
	}
	if want := `the status of 1 of 4 spaces could not be read: space "broken": out of order`; !strings.Contains(errOut, want) {
		t.Errorf("the error is %q, want %q", errOut, want)
	}
	if strings.Contains(errOut, "in any space") {
		t.Errorf("without the space broken: %q", errOut)
	}
	code, out, _ = command(t, "status", "-A", "-o", "json", "--kubeconfig", file)
	var all allStatuses
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != ExitError {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if len(all.Spaces) != 3 || len(all.Failed) != 1 || all.Failed[0].Space != "broken" || all.Failed[0].Message != "out of order" {
		t.Errorf("%+v", all)
	}
}

// TestStatusOfAllSpacesOfAwayHub requests nothing more after a request without a response: each could wait
// for a timeout.
func TestStatusOfAllSpacesOfAwayHub(t *testing.T) {
	code, out, errOut := command(t, "status", "-A", "--kubeconfig", kubeconfigOf(t, spacesHub(t, "late").URL))
	if code != ExitError || !strings.Contains(errOut, "the status of 3 of 4 spaces could not be read") || !strings.Contains(out, "p-good") || strings.Contains(out, "p-root") {
		t.Errorf("exit code %d, output %q, error %q", code, out, errOut)
	}
}
