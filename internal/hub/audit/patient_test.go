package audit

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// disk accepts a limited number of bytes.
type disk struct {
	bytes.Buffer
	room int
}

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	_, _ = d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errors.New("full")
	}
	return n, nil
}

// TestFullDisk: events that can't be written are counted and logged once, and later events are
// complete lines.
func TestFullDisk(t *testing.T) {
	var logged strings.Builder
	d := &disk{room: 10}
	p := &patient{to: d, logger: slog.New(slog.NewTextHandler(&logged, nil))}
	write := func(text string) {
		t.Helper()
		if n, err := p.Write([]byte(text + "\n")); n != len(text)+1 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	for _, text := range []string{"first", "second", "third"} {
		write(text)
	}
	d.room = 100
	write("fourth")
	if got := d.String(); !strings.HasPrefix(got, "first\n") || !strings.HasSuffix(got, "\nfourth\n") || strings.Contains(got, "third") {
		t.Errorf("written: %q", got)
	}
	if p.count() != 2 || strings.Count(logged.String(), "\n") != 1 {
		t.Errorf("%d lost, said: %s", p.count(), logged.String())
	}
}
