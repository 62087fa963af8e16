package life

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/seeds"
)

// TestKilledAfterAnswers kills a hub, whose log is in its own process, while clients create objects:
// what was answered is there afterwards as it was answered, and what was not is there as it was sent,
// or not at all.
func TestKilledAfterAnswers(t *testing.T) {
	t.Parallel()
	h := hubAt(t, env.StartHub(t))
	s := h.space("s")
	const rounds, writers = 3, 8
	random := seeds.Rand(t, 1)
	for round := range rounds {
		answered := make([]map[string][]byte, writers)
		left, enough := atomic.Int64{}, make(chan struct{})
		left.Store(50 + random.Int64N(50))
		var all sync.WaitGroup
		for w := range writers {
			answered[w] = map[string][]byte{}
			all.Go(func() {
				createUntilKilled(s, fmt.Sprintf("c-%d-%d", round, w), func(name string, raw []byte) {
					if answered[w][name] = raw; left.Add(-1) == 0 {
						close(enough)
					}
				})
			})
		}
		select {
		case <-enough:
		case <-time.After(soon):
			t.Errorf("%d more were to be answered", left.Load())
		}
		h.Kill()
		all.Wait()
		h.Start()
		s.idle()
		whole(t, s, round, answered)
	}
}

// createUntilKilled creates objects with a name, one after the other, until the hub does not answer.
func createUntilKilled(s *api, name string, answered func(name string, raw []byte)) {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d", name, i)
		got, err := s.request(s.t.Context(), http.MethodPost, configMaps, asJSON, killed(name))
		if err != nil {
			return
		}
		if got.code != http.StatusCreated {
			s.t.Errorf("create %s: %s", name, got)
			return
		}
		answered(name, got.raw)
	}
}

// killed returns an object whose name determines its content and size.
func killed(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"k":%q}}`, name, killedText(name))
}

func killedText(name string) string {
	i := name[strings.LastIndexByte(name, '-')+1:]
	return strings.Repeat(name+" ", 1+len(i)*int(i[len(i)-1]-'0')*100)
}

// unversioned returns an object with its resource version in front: reads and responses to writes
// have it at different positions.
func unversioned(raw []byte) string {
	version := fmt.Sprintf(`"resourceVersion":%s,`, gjson.GetBytes(raw, "metadata.resourceVersion").Raw)
	return version + strings.TrimSpace(strings.Replace(string(raw), version, "", 1))
}

// whole checks that the space has exactly the acknowledged objects of a round, complete.
func whole(t *testing.T, s *api, round int, answered []map[string][]byte) {
	t.Helper()
	there := map[string]gjson.Result{}
	for _, o := range s.get(configMaps).field("items").Array() {
		if name := o.Get("metadata.name").String(); strings.HasPrefix(name, fmt.Sprintf("c-%d-", round)) {
			there[name] = o
		}
	}
	n := 0
	for _, all := range answered {
		for name, old := range all {
			n++
			if !there[name].Exists() {
				t.Errorf("round %d: %s was acknowledged, and does not exist", round, name)
				continue
			}
			if is := s.get(configMaps + "/" + name); is.code != http.StatusOK || unversioned(is.raw) != unversioned(old) {
				t.Errorf("round %d: %s\n got %s\nwant %s", round, name, is, old)
			}
		}
	}
	for name, o := range there {
		if o.Get("data.k").String() != killedText(name) || o.Get("metadata.uid").String() == "" {
			t.Errorf("round %d: %s exists with the content %.500s", round, name, o.Raw)
		}
	}
	t.Logf("round %d: %d creations were acknowledged, %d objects exist", round, n, len(there))
}
