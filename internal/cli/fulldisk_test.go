package cli

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

var errFull = errors.New("no space left on device")

// full is a writer that accepts some bytes, like a disk that becomes full.
type full struct{ left int }

func (w *full) Write(b []byte) (int, error) {
	n := min(len(b), w.left)
	if w.left -= n; n < len(b) {
		return n, errFull
	}
	return n, nil
}

// TestTablesReportFailedWrites checks that printing a table fails if any write fails.
func TestTablesReportFailedWrites(t *testing.T) {
	t.Parallel()
	table := &metav1.Table{ColumnDefinitions: columns("Name", "State"), Rows: []metav1.TableRow{{Cells: []any{"a", "b"}}}}
	all, err := parseColumns("A:.object")
	if err != nil {
		t.Fatal(err)
	}
	for name, printTo := range map[string]func(w io.Writer) error{
		"table":   func(w io.Writer) error { return (&output{}).table(w, io.Discard, table.DeepCopy(), "rows") },
		"columns": func(w io.Writer) error { return printColumns(w, all, []any{map[string]any{"object": "x"}}) },
	} {
		for left := range 3 {
			if err := printTo(&full{left}); !errors.Is(err, errFull) {
				t.Errorf("%s: the error is %v, want %v", name, err, errFull)
			}
		}
	}
}

// TestCommandsReportFailedWrites checks that a command fails if its table cannot be written.
func TestCommandsReportFailedWrites(t *testing.T) {
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name","type":"string"}],"rows":[{"cells":["a"]}]}`)
	}))
	defer hub.Close()
	var errOut strings.Builder
	code := Main(t.Context(), []string{"orrery", "location", "list", "--kubeconfig", kubeconfigOf(t, hub.URL)},
		genericiooptions.IOStreams{In: strings.NewReader(""), Out: &full{}, ErrOut: &errOut})
	if code != ExitError || !strings.Contains(errOut.String(), errFull.Error()) {
		t.Errorf("exit code %d, %s", code, &errOut)
	}
}
