package store

import (
	"reflect"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/wire"
)

// TestLive: what was seen is read as it was stored, and as an older agent stored it.
func TestLive(t *testing.T) {
	three := int64(3)
	for _, l := range []*Live{
		{},
		{UID: "u", Generation: 2, Health: wire.Degraded, Detail: "a\nb", Diagnosis: &Diagnosis{Text: "c", Since: time.Unix(1, 0).UTC(), Final: true}, IsSuspect: true, Wanted: &wire.Wanted{Replicas: &three}, Status: []byte("{\"a\":\n1}")},
	} {
		b, err := l.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeLive(b)
		if err != nil || string(got.Status) != string(l.Status) {
			t.Fatalf("%+v, %v, want %+v", got, err, l)
		}
		if got.Status = l.Status; !reflect.DeepEqual(got, l) {
			t.Errorf("%+v, want %+v", got, l)
		}
	}
	old := "{\"health\":\"x\",\n\"n\":1}"
	if got, err := decodeLive([]byte(old)); err != nil || string(got.Status) != old || got.Health != "" {
		t.Errorf("of an older agent: %+v, %v", got, err)
	}
	if _, err := decodeLive([]byte{livePrefix, '{'}); err == nil {
		t.Error("damage is read")
	}
}
