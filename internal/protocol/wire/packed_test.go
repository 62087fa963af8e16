package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

const packedUID = "0b9e7f3a-55aa-4c1e-9d2f-0123456789ab"

// The packed form of any report unpacks to the same bytes.
func TestPackedReportsAreTheSame(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		r := wire.Report{
			UID:        rapid.SampledFrom([]string{packedUID, "", "u", strings.ToUpper(packedUID), strings.ReplaceAll(packedUID, "-", "0")}).Draw(t, "uid"),
			Generation: rapid.SampledFrom([]int64{0, 1, -1, 300, 1 << 62}).Draw(t, "generation"),
			State:      wire.State(rapid.SampledFrom([]string{"Applied", "Failed", "Removed", "Present", "", "Other", `a"b`}).Draw(t, "state")),
			Reason:     rapid.SampledFrom([]string{"", "", "Mutated"}).Draw(t, "reason"),
			Since:      rapid.SampledFrom([]string{"", "2026-11-23T17:00:00Z", "1969-01-01T00:00:00Z", "2026-11-23T17:00:00.5Z", "2026-11-23T17:00:00+01:00", "now"}).Draw(t, "since"),
			Health:     wire.Health(rapid.SampledFrom([]string{"", "Healthy", "Degraded", "Fine"}).Draw(t, "health")),
			HealthNote: rapid.SampledFrom([]string{"", "", `a "note"`}).Draw(t, "note"),
			Orphan:     rapid.Bool().Draw(t, "orphan"),
		}
		if rapid.Bool().Draw(t, "applied") {
			r.Digest = wire.SumOf([]byte(r.UID))
		}
		if rapid.Bool().Draw(t, "has a status") {
			r.Status = json.RawMessage(`{"replicas":1}`)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := wire.ReportText(wire.PackReport(text)); !bytes.Equal(got, text) {
			t.Fatalf("%s became %s", text, got)
		}
	})
}

// The fields that nearly all reports have take less than a third.
func TestPackedReportsAreShort(t *testing.T) {
	text, err := json.Marshal(wire.Report{
		UID: packedUID, Generation: 7, Digest: wire.SumOf(nil), State: wire.Applied, Since: "2026-11-23T17:00:00Z", Health: wire.Healthy,
	})
	if err != nil {
		t.Fatal(err)
	}
	if packed := wire.PackReport(text); 3*len(packed) > len(text) {
		t.Errorf("%d bytes of %d", len(packed), len(text))
	}
}

// Bytes that are not a packed report are rejected without harm; JSON stays unchanged.
func FuzzReportText(f *testing.F) {
	f.Add([]byte{1, 0x1f, 0})
	f.Add([]byte(`{"uid":"` + packedUID + `","digest":"","state":"Applied"}`))
	f.Fuzz(func(t *testing.T, kept []byte) {
		text := wire.ReportText(kept)
		if len(kept) > 0 && kept[0] == '{' && !bytes.Equal(wire.ReportText(wire.PackReport(kept)), kept) {
			t.Errorf("%q became %q", kept, text)
		}
	})
}
