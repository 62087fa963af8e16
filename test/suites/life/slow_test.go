package life

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

const (
	// window is the number of revisions that the hub of the test keeps in memory.
	window = 200
	// written is the number of changes in a series, each of about pieceBytes: more than the buffers
	// of the network and the window hold together.
	written    = 400
	pieceBytes = 40 << 10
	// slowOnes is the number of clients that never read.
	slowOnes = 20
)

// TestSlowWatchersAreCut opens watches that some clients never read, and others that clients do
// read. The slow watches do not delay writers and other watches. The hub keeps nothing for them
// beyond its window, and ends them with an error.
func TestSlowWatchersAreCut(t *testing.T) {
	t.Parallel()
	h := startHub(t, "--window-revisions", fmt.Sprint(window))
	s := h.space("s")
	s.post(configMaps, configMap("c", "")).is(t, http.StatusCreated, "create")
	took := writeMany(t, s, "alone") // and the window is full now
	before := h.Usage().RSSAnon
	revision := s.get(configMaps).field("metadata.resourceVersion").String()
	path := configMaps + "?watch=true&resourceVersion=" + revision

	small := func(ctx context.Context, network, address string) (net.Conn, error) {
		const receive = 32 << 10
		d := &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, receive) })
		}}
		return d.DialContext(ctx, network, address)
	}
	var slow []*http.Response
	for i := range slowOnes {
		a := newAPI(t, h.PathConfig("spaces/s"), i%2 == 0, small)
		resp, err := a.open(t.Context(), http.MethodGet, path, "", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		slow = append(slow, resp) //nolint:bodyclose // closed when the test ends
	}
	readers := []*watching{s.watch(path), s.watch(path), newAPI(t, h.PathConfig("spaces/s"), false, nil).watch(path)}
	seen := make(chan []string, len(readers))
	for _, r := range readers {
		go func() { seen <- r.values(written) }()
	}
	tookBeside := writeMany(t, s, "beside")
	want := sequence("beside")
	for range readers {
		select {
		case got := <-seen:
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("a watch that is read saw %d of %d changes in order", common(got, want), len(want))
			}
		case <-time.After(soon):
			t.Fatal("a watch that is read does not see all changes")
		}
	}
	most := h.Usage().RSSAnon
	t.Logf("%d writes took %s, and %s beside %d slow watches; memory went from %d to %d MiB", written, took, tookBeside, slowOnes, before>>20, most>>20)
	// Ten times less than what the slow ones have not read.
	if limit := int64(slowOnes) * written * pieceBytes / 10; most-before > limit {
		t.Errorf("memory rose by %d MiB", (most-before)>>20)
	}
	for i, resp := range slow {
		got, last, err := readRest(resp.Body)
		if err == nil || errors.Is(err, context.DeadlineExceeded) || len(got) >= written {
			t.Fatalf("slow watch %d went on: %d events, %v", i, len(got), err)
		}
		if n := common(got, want); n != len(got) {
			t.Errorf("slow watch %d has a gap after %d of %d events", i, n, len(got))
		}
		if i > 1 {
			continue
		}
		expired(t, s, last)
	}
	// A client that lists again continues with the present state.
	list := s.get(configMaps)
	again := s.watch(configMaps + "?watch=true&resourceVersion=" + list.field("metadata.resourceVersion").String())
	s.patch(configMaps+"/c", `{"data":{"k":"again"}}`).is(t, http.StatusOK, "change")
	if got := again.values(1); len(got) != 1 || got[0] != "again" {
		t.Errorf("started over, the watch saw %q", got)
	}
}

// expired resumes from where a slow watch was cut.
func expired(t *testing.T, s *api, revision string) {
	t.Helper()
	if revision == "" {
		return // it has not seen any
	}
	resp, err := s.open(t.Context(), http.MethodGet, configMaps+"?watch=true&resourceVersion="+revision, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	status := gjson.Parse(line)
	if status.Get("type").String() == "ERROR" {
		status = status.Get("object")
	}
	if status.Get("code").Int() != http.StatusGone || status.Get("reason").String() != "Expired" {
		t.Errorf("a watch from revision %s, where one was cut: %s %s", revision, resp.Status, line)
	}
}

// writeMany changes one object again and again and returns how long that took.
func writeMany(t *testing.T, s *api, what string) time.Duration {
	t.Helper()
	start := time.Now()
	filler := strings.Repeat("x", pieceBytes)
	for _, value := range sequence(what) {
		s.patch(configMaps+"/c", fmt.Sprintf(`{"data":{"k":%q,"filler":%q}}`, value, filler)).is(t, http.StatusOK, "change")
	}
	return time.Since(start)
}

// sequence are the values that writeMany writes.
func sequence(what string) []string {
	var all []string
	for i := range written {
		all = append(all, fmt.Sprint(what, "-", i))
	}
	return all
}

// common is how many values two lists have in common from the start.
func common(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// values are those of n events, or fewer if the watch ends.
func (w *watching) values(n int) []string {
	var all []string
	for len(all) < n {
		line, ok := <-w.lines
		if !ok {
			break
		}
		all = append(all, gjson.Get(line, "object.data.k").String())
	}
	return all
}

// readRest reads a watch to its end. It returns the values, the resource version of the last one,
// and the error that ended the watch.
func readRest(body io.Reader) (all []string, revision string, err error) {
	in := bufio.NewReader(body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return all, revision, err
		}
		if gjson.Get(line, "type").String() == "ERROR" {
			return all, revision, errors.New(line)
		}
		all = append(all, gjson.Get(line, "object.data.k").String())
		revision = gjson.Get(line, "object.metadata.resourceVersion").String()
	}
}
