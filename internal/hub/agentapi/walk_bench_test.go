package agentapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/storage/logidentity"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// walkedServer is a server whose table has so many objects, all placed at each of so many
// locations.
func walkedServer(b testing.TB, objects, locations int) *Server {
	b.Helper()
	registry, err := registry.New()
	if err != nil {
		b.Fatal(err)
	}
	const window = 1 << 20
	writer := table.New(table.Config{Deriver: placement.New(), WindowSteps: window, WindowBytes: window})
	h := New(Config{
		Table:         writer.Table,
		LogIdentity:   &logidentity.Identity{},
		Renderer:      render.New(registry.Builtin(key.Root)),
		Sessions:      NewSessions(time.Now, unpublished{}),
		Confirmations: func(key.Location) []wire.Confirmation { return nil },
		Requests:      200, Bodies: fairqueue.Bodies{Queue: fairqueue.NewQueue(fairqueue.Defaults(16))},
		Heartbeat: 30 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	var rows []table.Update
	add := func(o key.Object, value any) {
		encoded, err := json.Marshal(value)
		if err != nil {
			b.Fatal(err)
		}
		rows = append(rows, table.Update{Key: o.Key(), Value: encoded, CreateRev: 1, ModRev: 1})
	}
	in := func(s key.Space, r key.Resource, namespace, name string) key.Object {
		return key.Object{Space: s, Identity: key.Identity{Resource: r, Namespace: namespace, Name: name}}
	}
	meta := func(name string) map[string]any { return map[string]any{"name": name, "uid": "uid-" + name} }
	add(in(key.Root, key.Spaces, "", "s"), map[string]any{"metadata": meta("s")})
	for i := range locations {
		name := fmt.Sprintf("l%04d", i)
		add(in(key.Root, key.Locations, "", name), map[string]any{"metadata": meta(name)})
	}
	add(in("s", key.Placements, "", "p"), map[string]any{"metadata": meta("p"), "spec": v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Selector: &metav1.LabelSelector{}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"configmaps"}}}},
	}})
	for i := range objects {
		name := fmt.Sprintf("object-%06d", i)
		add(in("s", key.NewResource("", "configmaps"), "default", name), map[string]any{"metadata": meta(name), "data": map[string]string{"k": name}})
	}
	writer.Reset(1, rows)
	return h
}

// walkedRequest is a request of the agent of one of a walkedServer's locations.
func walkedRequest(l key.Location) agentRequest {
	return agentRequest{location: l, uid: "uid-" + string(l)}
}

// walkAll runs the comparison of an agent without objects, without the fetches.
func walkAll(h *Server, l key.Location) (leaves, size int, err error) {
	mine, err := wire.NewIndex(nil)
	if err != nil {
		return 0, 0, err
	}
	revision := int64(0)
	for spans := []wire.Span{mine.Span("", "")}; len(spans) > 0; {
		var body bytes.Buffer
		encoder := wire.NewEncoder(&body)
		if err := encoder.Encode(wire.Walk{Revision: revision}); err != nil {
			return 0, 0, err
		}
		n := min(len(spans), wire.MaxSpans)
		for _, s := range spans[:n] {
			if err := encoder.Encode(s); err != nil {
				return 0, 0, err
			}
		}
		spans = spans[n:]
		answer := httptest.NewRecorder()
		h.comparisons.serve(answer, httptest.NewRequest(http.MethodPost, "/", &body), walkOf{agentRequest: walkedRequest(l)})
		size += answer.Body.Len()
		for decoder := json.NewDecoder(answer.Body); ; {
			var f wire.Frame
			if err := decoder.Decode(&f); err != nil {
				return 0, 0, fmt.Errorf("%d: %w", answer.Code, err)
			}
			if f.Hello != nil {
				revision = f.Hello.Revision
			}
			if f.Mark != nil {
				break
			}
			if f.RangeDifference != nil {
				d := mine.Compare(*f.RangeDifference)
				spans, leaves = append(spans, d.Next...), leaves+len(d.Theirs)
			}
		}
	}
	return leaves, size, nil
}

// BenchmarkWalks runs concurrent comparisons of the whole content by agents without a store. The time
// should be in proportion to the bytes of the responses.
func BenchmarkWalks(b *testing.B) {
	for _, c := range []struct{ objects, locations int }{{5000, 1}, {5000, 100}, {100, 1000}} {
		b.Run(fmt.Sprintf("%dx%d", c.objects, c.locations), func(b *testing.B) {
			h := walkedServer(b, c.objects, c.locations)
			total := 0
			for b.Loop() {
				sizes := make([]int, c.locations)
				var group errgroup.Group
				for i := range sizes {
					group.Go(func() error {
						leaves, size, err := walkAll(h, key.Location(fmt.Sprintf("l%04d", i)))
						if err == nil && leaves != c.objects {
							err = fmt.Errorf("a walk found %d objects", leaves)
						}
						sizes[i] = size
						return err
					})
				}
				if err := group.Wait(); err != nil {
					b.Fatal(err)
				}
				total = 0
				for _, n := range sizes {
					total += n
				}
			}
			b.SetBytes(int64(total))
		})
	}
}
