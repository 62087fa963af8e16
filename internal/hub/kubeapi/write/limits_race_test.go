package write_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/seeds"
)

// TestLimitsHold: whatever many writers do at once, and in whichever way objects are created, at no
// revision the space holds more than it may. What is refused says so as a ResourceQuota does, and
// then nothing is counted that is not there.
func TestLimitsHold(t *testing.T) {
	h := newHub(t)
	const writers, writes, room, bytes = 24, 40, 20, 30_000
	before := h.counted()
	most := quota.Amount{Objects: before.Objects + room, Bytes: before.Bytes + bytes}
	h.limit(object{"objects": most.Objects, "bytes": fmt.Sprint(most.Bytes)})
	from := h.rev()
	var answered [600]atomic.Int64 // by code
	var tooMany, tooLarge atomic.Int64
	var all sync.WaitGroup
	for w := range writers {
		random := seeds.Rand(t, uint64(w))
		all.Go(func() {
			for range writes {
				a := h.writeLimited(random)
				answered[a.code].Add(1)
				if a.code != http.StatusForbidden {
					continue
				}
				if strings.Contains(string(a.raw), "limited: objects=") {
					tooMany.Add(1)
				}
				if strings.Contains(string(a.raw), "limited: bytes=") {
					tooLarge.Add(1)
				}
				h.refused(a, http.StatusForbidden, metav1.StatusReasonForbidden, `exceeded limits of space "a": requested: `)
			}
		})
	}
	all.Wait()
	for code := range answered {
		switch n := answered[code].Load(); {
		case n == 0:
		case code == 200, code == 201, code == 403, code == 404, code == 409:
			t.Logf("%d: %d", code, n)
		default:
			t.Errorf("%d answers have the code %d", n, code)
		}
	}
	t.Logf("refused: %d by objects, %d by bytes", tooMany.Load(), tooLarge.Load())
	if tooMany.Load() == 0 || tooLarge.Load() == 0 {
		t.Error("a limit was never reached")
	}
	h.checkUsage()
	h.neverHeldMore(from, before, most)
	h.fillsExactly()
}

// writeLimited does something with one of some objects.
func (h *hub) writeLimited(random *rand.Rand) answer {
	name := fmt.Sprint("c", random.IntN(50))
	path := configMaps + "/" + name
	body := configMap(name, object{"k": strings.Repeat("x", random.IntN(3000))})
	switch random.IntN(8) {
	case 0, 1:
		return h.do("POST", limited, configMaps, body)
	case 2:
		return h.do("POST", limited, configMaps+"?"+fromLibrary, body)
	case 3:
		return h.do("PATCH", limited, path+"?fieldManager=m&force=true", body, "Content-Type", apply)
	case 4:
		return h.do("PATCH", limited, path, object{"data": body["data"]}, "Content-Type", merge)
	case 5:
		return h.do("PUT", limited, path, body)
	}
	return h.do("DELETE", limited, path, nil)
}

// neverHeldMore goes through the log after a revision, at which the space held an amount.
func (h *hub) neverHeldMore(from int64, held, most quota.Amount) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.ctx, limit.Wait)
	defer cancel()
	to := h.rev()
	sizes := map[string]int{}
	for r := range h.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from+1), clientv3.WithPrevKV()) {
		for _, e := range r.Events {
			k := string(e.Kv.Key)
			if strings.HasPrefix(k, prefix+key.SpacePrefix(limited)) {
				previous, there := sizes[k]
				if !there && e.PrevKv != nil {
					previous, there = len(e.PrevKv.Value), true
				}
				if there {
					held.Objects, held.Bytes = held.Objects-1, held.Bytes-int64(previous)
				}
				if delete(sizes, k); e.Type == clientv3.EventTypePut {
					sizes[k] = len(e.Kv.Value)
					held.Objects, held.Bytes = held.Objects+1, held.Bytes+int64(len(e.Kv.Value))
				}
				if held.Objects > most.Objects || held.Bytes > most.Bytes {
					h.t.Errorf("at revision %d the space holds %+v, of %+v", e.Kv.ModRevision, held, most)
				}
			}
		}
		if len(r.Events) > 0 && r.Events[len(r.Events)-1].Kv.ModRevision >= to {
			return
		}
	}
	h.t.Fatalf("the log was not read to %d", to)
}

// fillsExactly: as many objects can be created as have room, and no more.
func (h *hub) fillsExactly() {
	h.t.Helper()
	const more = 3
	h.limit(object{"objects": h.counted().Objects + more, "bytes": nil})
	for i := range more {
		h.must(201, h.do("POST", limited, configMaps, configMap(fmt.Sprint("more-", i), nil)))
	}
	h.refused(h.do("POST", limited, configMaps, configMap("one-too-many", nil)), 403, metav1.StatusReasonForbidden, "requested: objects=1")
	h.checkUsage()
}

// TestLimitsOfThoseWhoLeave: what clients asked for that are gone before it is answered is counted if
// it is there, and only then.
func TestLimitsOfThoseWhoLeave(t *testing.T) {
	h := newHub(t)
	const writers, writes = 16, 30
	left := httptest.NewServer(h.chain())
	var all sync.WaitGroup
	for w := range writers {
		random := seeds.Rand(t, uint64(w))
		all.Go(func() {
			for i := range writes {
				h.leaves(left.URL, fmt.Sprintf("c-%d-%d", w, i), random)
			}
		})
	}
	all.Wait()
	left.Close()                                                           // once it has served all
	h.must(201, h.do("POST", limited, configMaps, configMap("last", nil))) // after whatever the log has of them
	h.checkUsage()
	t.Logf("%d of %d were created", h.counted().Objects, writers*writes)
	h.fillsExactly()
}

// leaves asks for an object, and is gone a moment later.
func (h *hub) leaves(url, name string, random *rand.Rand) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.ctx, time.Duration(random.IntN(3000))*time.Microsecond)
	defer cancel()
	body, err := json.Marshal(configMap(name, object{"k": strings.Repeat("x", random.IntN(100_000))}))
	if err != nil {
		h.t.Error(err)
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/spaces/"+limited+configMaps, strings.NewReader(string(body)))
	if err != nil {
		h.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			h.t.Error(err)
		}
		return
	}
	_ = resp.Body.Close() // without a look at it
}
