package kubeapi

import (
	"fmt"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestCascadeMemoryIsFair checks that the memory of deleted Namespaces is bounded, and that a space displaces
// only its own Namespaces and those of spaces with more objects.
func TestCascadeMemoryIsFair(t *testing.T) {
	t.Parallel()
	m, now := newCascadeMemory(), time.Unix(1000, 0)
	objects := func(n int) cascadedObjects {
		all := cascadedObjects{}
		for i := range n {
			all[key.Identity{Name: fmt.Sprint(i)}] = "uid"
		}
		return all
	}
	quiet := cascade{"jane", "one", "n", "quiet"}
	m.add(quiet, objects(3), now)
	for i := range 40 {
		space := key.Space(fmt.Sprint("busy", i))
		for j := range 2 * maxCascades {
			m.add(cascade{"joe", "two", fmt.Sprint(j), space}, objects(maxCascaded), now)
		}
	}
	if m.get(quiet, now) == nil {
		t.Error("other spaces displaced the objects of a space")
	}
	if m.size > maxRemembered {
		t.Errorf("%d objects are remembered, want at most %d", m.size, maxRemembered)
	}
	total := 0
	for name, s := range m.spaces {
		size := 0
		for _, e := range s.entries {
			size += len(e.objects)
		}
		if total += size; size != s.size || len(s.entries) > maxCascades {
			t.Errorf("space %s: %d objects in %d Namespaces, counted %d", name, size, len(s.entries), s.size)
		}
	}
	if total != m.size {
		t.Errorf("%d objects, counted %d", total, m.size)
	}
	if later := now.Add(cascadeTime); m.get(quiet, later) != nil {
		t.Error("the memory does not end")
	} else if m.add(quiet, objects(1), later); len(m.spaces) != 1 || m.size != 1 {
		t.Errorf("%d spaces with %d objects remain after the time", len(m.spaces), m.size)
	}
}
