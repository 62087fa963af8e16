package agent_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// maxAnnotations is the size of all annotations of an object that an API server allows.
const maxAnnotations = 256 << 10

// annotationsTooLong: the report of an object whose annotations fit in its space, and not at the location, explains why.
// The object is applied when they are shorter by the size in the message. Annotations of other writers count, too.
func annotationsTooLong(s *site) {
	t := s.t
	object := func(name string, size int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","data":{"v":"1"},"kind":"ConfigMap","metadata":{"annotations":{"a":%q},"name":%q,"namespace":%q}}`,
			strings.Repeat("x", size-1), name, s.name)
	}
	s.hub.Put(s.key("large"), "uid-a", object("large", maxAnnotations))
	s.hub.Put(s.key("small"), "uid-b", object("small", 100))
	s.start()
	message := s.reports(s.key("large"), wire.Failed, string(metav1.StatusReasonInvalid)).Message
	found := regexp.MustCompile(`have (\d+) bytes, (\d+) more than the 262144 .*own annotations count, too, and have (\d+) bytes: shorten .* by at least (\d+) bytes`).FindStringSubmatch(message)
	if found == nil {
		t.Fatalf("message %q", message)
	}
	var sizes []int
	for _, text := range found[1:] {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, n)
	}
	if own := sizes[2]; own < 100 || own > 2000 || sizes[0] != maxAnnotations+own || sizes[1] != own || sizes[3] != own {
		t.Errorf("message %q", message)
	}
	if err := s.gone("large")(); err != nil {
		t.Error(err)
	}
	s.hub.Put(s.key("large"), "uid-a", object("large", maxAnnotations-sizes[3]))
	s.reports(s.key("large"), wire.Applied, "")

	s.reports(s.key("small"), wire.Applied, "")
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"other":%q}}}`, strings.Repeat("y", maxAnnotations-2000))
	if _, err := s.client.CoreV1().ConfigMaps(s.name).Patch(t.Context(), "small", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.hub.Put(s.key("small"), "uid-b", object("small", 3000))
	if r := s.reports(s.key("small"), wire.Failed, string(metav1.StatusReasonInvalid)); !strings.Contains(r.Message, "those of other writers at the location are added") {
		t.Errorf("message %q", r.Message)
	}
	s.hub.Put(s.key("small"), "uid-b", object("small", 90))
	s.reports(s.key("small"), wire.Applied, "")
	env.Eventually(t, soon, func() error {
		m, err := s.get("small")
		if err == nil && len(m.Annotations["a"]) != 89 {
			err = fmt.Errorf("the annotation has %d bytes", len(m.Annotations["a"]))
		}
		return err
	})
}
