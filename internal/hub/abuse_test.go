package hub_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestDeletionsDoNotGrow shows that a client that removes a finalizer can't fill a full
// log with the rest of that write: it is a step of a deletion, and those are never
// refused.
func TestDeletionsDoNotGrow(t *testing.T) {
	t.Parallel() // it waits much of the time
	r := start(t, t.TempDir(), withSmallQuota, hurried)
	r.addSpace("s")
	r.mayFill()
	const all = 24 // each of 1 MiB, of which a full log takes less than half
	configMaps := r.space("s").Resource(configMapsGVR).Namespace("default")
	for i := range all {
		held := object("v1", "ConfigMap", "default", fmt.Sprint("held-", i), nil, nil)
		held.SetFinalizers([]string{"example.org/a", "example.org/b"})
		r.create("s", configMapsGVR, held)
		if err := configMaps.Delete(t.Context(), held.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.fill(0)
	r.saysFull()
	took := 0
	for i := range all {
		if r.large(t.Context(), http.MethodPut, fmt.Sprint("held-", i), filler(i, 1<<20), "example.org/a") == nil {
			took++
		}
	}
	if took > 10 { // reserved for the hub and for deletions
		t.Errorf("a full log took %d MiB more", took)
	}
	for i := range all {
		_, err := configMaps.Patch(t.Context(), fmt.Sprint("held-", i), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatalf("end of the finalizers of %d: %v", i, err)
		}
	}
	r.withinQuota()
}

// TestFloodOfStatuses shows that one location's token can't cause writes without end by
// the statuses of its agent.
func TestFloodOfStatuses(t *testing.T) {
	t.Parallel()
	now := time.Now() // the clock of the rates: nothing is allowed anew, however long the posts take
	r := fixture(t, func(c *hub.Config) { c.Now = func() time.Time { return now } })
	a := r.join("a")
	_, before := r.Table.Get(key.Location("a").Key())
	const posts, waiting, atOnce = 130, 200, 8 // at most 100 are taken at once
	var busy atomic.Int64
	var group errgroup.Group
	group.SetLimit(atOnce) // each is answered when it is written
	for i := range posts {
		group.Go(func() error {
			var all []string
			for n := range waiting {
				all = append(all, fmt.Sprintf(`{"space":"s","placement":"%0100d","pending":1,"digest":"%0100d"}`, n, i*waiting+n))
			}
			resp, err := a.post(t.Context(), "status", fmt.Sprintf(`{"version":"%d","prune":{"pending":1,"digest":"d","placements":[%s]}}`, i, strings.Join(all, ",")))
			if err != nil {
				return err
			}
			if resp.StatusCode == http.StatusTooManyRequests {
				busy.Add(1)
			}
			return resp.Body.Close()
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	_, after := r.Table.Get(key.Location("a").Key())
	t.Logf("%d of %d refused, %d revisions", busy.Load(), posts, after-before)
	if busy.Load() == 0 {
		t.Error("none was refused")
	}
}

// TestLongProtocol shows that the protocol version that a request names is stored only up
// to a length.
func TestLongProtocol(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	req, err := a.New(t.Context(), http.MethodGet, route.Desired, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(wire.Header, strings.Repeat("7", 500<<10))
	resp, err := a.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	r.eventually(func() string {
		row, _ := r.Table.Get(key.Location("a").Key())
		switch {
		case !bytes.Contains(row.Value, []byte("the agent speaks protocol")):
			return "the location does not say it"
		case len(row.Value) > 16<<10:
			t.Fatalf("the location has %d bytes", len(row.Value))
		}
		return ""
	})
}

// slowBackup starts a backup and does not read its body yet. trailer returns the trailer after the body
// has been read.
func (r *running) slowBackup(header http.Header) (body io.Reader, trailer func() string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.URL+route.Backup, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header = header
	resp, err := r.operator().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		r.t.Fatal(resp.Status)
	}
	return resp.Body, func() string { return resp.Trailer.Get(hub.BackupError) }
}

// dawdle reads a part now and then, so that it is never that the client does not read at all for
// which a copy ends, however slow the machine is. It would take half an hour to read the rest of a
// copy once HTTP/2 has 4 MiB of it under way: the copy does not end by itself. What it returns reads
// the rest.
func dawdle(from io.Reader) (rest func() error) {
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				_, err := io.Copy(io.Discard, from)
				done <- err
				return
			case <-time.After(4 * time.Second):
				_, _ = io.CopyN(io.Discard, from, 8<<10) // what fails does so again at the end
			}
		}
	}()
	return func() error {
		close(stop)
		return <-done
	}
}

// TestSlowBackup checks that a backup whose client hardly reads does not use up the quota of the log:
// etcd can't reuse the space that it keeps for a copy before the copy ends. The client gets an error in
// the trailer. A full log can still be copied.
func TestSlowBackup(t *testing.T) {
	t.Parallel() // it waits much of the time
	r := start(t, t.TempDir(), withSmallQuota, hurried)
	r.addSpace("s")
	r.mayFill()
	for i := range 8 { // more than HTTP/2 has under way
		if err := r.large(t.Context(), http.MethodPost, fmt.Sprint("large-", i), filler(i, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	stream, trailer := r.slowBackup(http.Header{"Te": {"trailers"}})
	rest := dawdle(stream)
	for i := range 24 { // more than there is room for, unless history goes as fast
		if err := r.large(t.Context(), http.MethodPut, "large-0", filler(i, 1<<20)); err != nil {
			t.Fatalf("update %d: %v", i, err)
		}
	}
	r.withinQuota()
	r.fill(0) // which waits for room in any case
	if err := rest(); err != nil || !strings.Contains(trailer(), "given up") {
		t.Errorf("the backup continues, or its trailer has no error: %v, %q", err, trailer())
	}
	configMaps := r.space("s").Resource(configMapsGVR).Namespace("default")
	for i := range 4 {
		if err := configMaps.Delete(t.Context(), fmt.Sprint("fill-", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.eventually(func() string { return r.spaceReady(metav1.ConditionTrue, "Served") })
	broken, _ := r.slowBackup(nil)
	r.fill(0)
	if _, err := io.Copy(io.Discard, broken); err == nil {
		t.Error("a client that takes no trailers takes half of the log for all of it")
	}
	r.saysFull()
	full, _ := r.slowBackup(nil)
	if err := r.large(t.Context(), http.MethodPost, "more", filler(0, 1<<20)); err == nil {
		t.Error("a full log takes more")
	}
	copied, err := io.ReadAll(full)
	if err != nil {
		t.Fatalf("backup of a full log: %v", err)
	}
	if err := etcd.CheckBackup(bytes.NewReader(copied)); err != nil {
		t.Error(err)
	}
}
