package process

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func read(t *testing.T, target string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+target, http.NoBody)
	http.StripPrefix("/", ProfileHandler()).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestProfiles: go tool pprof reads each profile, and none contains the command line.
func TestProfiles(t *testing.T) {
	for _, name := range ProfileNames() {
		code, profile := read(t, name+"?seconds=1")
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(profile), 0o600); err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %v", name, code, err)
		}
		raw, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-raw", file).CombinedOutput()
		if err != nil || !strings.Contains(string(raw), "Samples:") {
			t.Errorf("%s: %v\n%s", name, err, raw)
		}
		for _, argument := range os.Args[1:] {
			if strings.Contains(string(raw), argument) {
				t.Errorf("%s has the argument %s", name, argument)
			}
		}
	}
	if _, text := read(t, "goroutine?debug=2"); !strings.Contains(text, "TestProfiles") {
		t.Errorf("stacks as text: %s", text)
	}
}

// TestCollect: garbage is collected before a heap profile if requested.
func TestCollect(t *testing.T) {
	for target, want := range map[string]uint32{"heap?gc=1": 1, "heap": 0, "heap?gc=0": 0, "goroutine?gc=1": 0} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code, _ := read(t, target)
		runtime.ReadMemStats(&after)
		if got := after.NumForcedGC - before.NumForcedGC; code != http.StatusOK || got != want {
			t.Errorf("%s: %d, %d collections, want %d", target, code, got, want)
		}
	}
}

// TestWhatIsRefused: requests that would reveal more, take too long, or run beside another one are
// refused.
func TestWhatIsRefused(t *testing.T) {
	for target, want := range map[string]int{
		"cmdline": http.StatusNotFound, "trace": http.StatusNotFound, "heap/x": http.StatusNotFound,
		"profile?seconds=121": http.StatusBadRequest, "profile?seconds=x": http.StatusBadRequest, "heap?debug=3": http.StatusBadRequest,
		"heap?gc=2": http.StatusBadRequest,
	} {
		if code, body := read(t, target); code != want {
			t.Errorf("%s: %d %s", target, code, body)
		}
	}
	taking.Lock()
	code, _ := read(t, "heap")
	taking.Unlock()
	if code != http.StatusTooManyRequests {
		t.Errorf("while another is taken: %d", code)
	}
}
