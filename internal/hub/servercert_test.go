package hub

import (
	"testing"
	"time"

	"orrery.dev/orrery/internal/enroll"
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
	if err != nil || right.Leaf.NotBefore.After(now) {
		t.Fatalf("after the clock was set back it is not valid yet, %v", err)
	}
}
