package advertise

import (
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/auth/enroll"
)

func TestServerCertificateIsRenewed(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	ca, err := enroll.LoadOrCreate(t.TempDir(), clock)
	if err != nil {
		t.Fatal(err)
	}
	s := &serverCertificate{ca: ca, hosts: []string{"localhost"}, now: clock}
	first, err := s.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(30 * 24 * time.Hour)
	if same, err := s.get(nil); err != nil || same != first {
		t.Fatalf("a month later it is another one, %v", err)
	}
	now = first.Leaf.NotAfter.Add(-30 * 24 * time.Hour)
	next, err := s.get(nil)
	if err != nil || !next.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Fatalf("a month before its end it is still the old one, %v", err)
	}
	now = now.Add(-48 * time.Hour)
	right, err := s.get(nil)
	if err != nil || right == next || right.Leaf.NotBefore.After(now) {
		t.Fatalf("after the clock was set back it is the same, or not valid yet, %v", err)
	}
	for range 20 { // over the lifetime of the authority: not created anew each time
		now = now.Add(120 * 24 * time.Hour)
		first, err := s.get(nil)
		if again, err2 := s.get(nil); err != nil || err2 != nil || again != first {
			t.Fatalf("at %s there are two: %v, %v", now, err, err2)
		}
	}
}
