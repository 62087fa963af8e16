package store

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestLargeReports: an agent that starts has few reports in memory at once, however large they are,
// and sees each of them once.
func TestLargeReports(t *testing.T) {
	s := mustOpen(t, t.TempDir(), secret)
	defer mustClose(t, s)
	const n, batch, size, most = 200, 20, 300 << 10, 16 << 20
	for from := 0; from < n; from += batch {
		if err := write(s, func(x *Tx) error {
			for i := from; i < from+batch; i++ {
				r := (&wire.Report{UID: "u", State: wire.Applied, Status: json.RawMessage(`"` + strings.Repeat("x", size) + `"`)}).Fit()
				if err := x.Reports.Set(fmt.Sprintf("s/core/configmaps/n/o%05d", i), &r); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, peak, seen := live(), uint64(0), map[string]bool{}
	if err := s.EachReport(func(o key.Object, r *wire.Report) error {
		if seen[o.Path()] = true; len(r.Status) < size {
			t.Errorf("%s has a status of %d bytes", o.Path(), len(r.Status))
		}
		if len(seen)%10 == 0 {
			peak = max(peak, live())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != n {
		t.Errorf("%d of %d are seen", len(seen), n)
	}
	if peak > before+most {
		t.Errorf("%d MiB are held at once", (peak-before)>>20)
	}
}
