package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/protocol"
	"orrery.dev/orrery/test/support/world"
)

const (
	// floodQuota is how large the log of a random life may become; floods are many
	// times as large in all.
	floodQuota = 64 << 20
	// floodRequests is how many requests a flood has at most.
	floodRequests = 40
	// floodStatus is how large a status it reports.
	floodStatus = 48 << 10
)

// flooder has a location's token, but is no agent: it reports whatever it likes about the
// objects that are assigned to the location.
type flooder struct {
	*protocol.Client
	keys       []string
	sent, took int
}

// newFlooder makes a location that wants everything.
func newFlooder(t *testing.T, w *world.World) *flooder {
	t.Helper()
	const name = "flood"
	env.Orrery(t, w.Root, "location", "add", name)
	for _, space := range spaceNames {
		env.Kubectl(t, w.Root, "label", "location", name, space+"-g0=yes", space+"-g1=yes")
	}
	join, err := wire.ParseJoin(w.Token(name))
	if err != nil {
		t.Fatal(err)
	}
	f := &flooder{}
	if f.Client, err = protocol.NewClient(join); err != nil {
		t.Fatal(err)
	}
	f.HTTP.Timeout = editTimeout
	t.Cleanup(f.Close)
	for _, space := range spaceNames {
		for _, namespace := range namespaces(space) {
			for i := range 6 {
				f.keys = append(f.keys, fmt.Sprintf("%s/core/configmaps/%s/c%d", space, namespace, i))
			}
		}
	}
	return f
}

// send reports another status of everything.
func (f *flooder) send(ctx context.Context, n int) error {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	status := json.RawMessage(fmt.Sprintf("%q", fmt.Sprint(n)+strings.Repeat("x", floodStatus)))
	for _, k := range f.keys {
		if err := encoder.Encode(wire.ReportLine{Key: k, Report: &wire.Report{Status: status}}); err != nil {
			return err
		}
	}
	f.sent += body.Len()
	answer, err := f.Do(ctx, http.MethodPost, route.Reports, &body)
	if err != nil {
		return err
	}
	defer answer.Close()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		return err
	}
	f.took++
	return nil
}

// flood sends reports without pause for a moment, whatever happens to the hub.
func (l *life) flood() {
	n := 1 + l.r.IntN(floodRequests)
	var err error
	took := l.flooder.took
	for i := range n {
		l.serial++
		if err = l.flooder.send(l.t.Context(), l.serial); err != nil && i > 3 {
			break
		}
	}
	l.record("a flood of %d reports, of which %d were taken: %v", n, l.flooder.took-took, err)
}

// withinQuota checks that the log's file is not larger than it may be. It is larger for
// a moment while etcd moves things in it.
func (l *life) withinQuota() {
	l.t.Helper()
	env.Eventually(l.t, soon, func() error {
		info, err := os.Stat(filepath.Join(l.Hub.Dir, "etcd", "member", "snap", "db"))
		if err == nil && info.Size() > floodQuota {
			err = fmt.Errorf("the log has %d bytes after floods of %d, its quota is %d", info.Size(), l.flooder.sent, floodQuota)
		}
		return err
	})
}

// TestFlood shows that a flood of reports of one location does not affect others: the hub accepts
// and distributes writes of other spaces, and the log stays within its quota, also when the hub is
// killed meanwhile.
func TestFlood(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	for l.flooder.sent < 3*floodQuota { // also what was not taken counts
		l.next()
		l.flood()
		l.write()
		if l.r.IntN(4) == 0 {
			l.killHub()
			l.startHub()
		}
	}
	if l.flooder.took == 0 {
		t.Error("no report was taken")
	}
	l.converge(0)
	l.withinQuota()
	t.Logf("%d MiB sent, %d requests taken", l.flooder.sent>>20, l.flooder.took)
}
