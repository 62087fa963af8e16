package queries

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/protocol/key"
)

// The size of a response is limited, even if each location gets a different object; equal results
// count once.
func TestRenderingsAreBounded(t *testing.T) {
	s, large := &sheet{indexes: map[gotten]int{}}, strings.Repeat("x", 1<<20)
	for i := range 2 * maxRendered >> 20 {
		if err := s.add(gotten{Content: large}, key.Location(string(rune('a'+i))), i == 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.all) != 1 || len(s.all[0].Locations) != 2*maxRendered>>20 || len(s.all[0].Assigned) != 1 {
		t.Errorf("what is alike is %d renderings", len(s.all))
	}
	var err error
	for i := 0; i < 2*maxRendered>>20 && err == nil; i++ {
		err = s.add(gotten{Content: large, Digest: string(rune('a' + i))}, "l", false)
	}
	if !apierrors.IsRequestEntityTooLargeError(err) || len(s.all) > maxRendered>>20 {
		t.Errorf("%d renderings of 1 MiB, and the error %v", len(s.all), err)
	}
}
