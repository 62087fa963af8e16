package agent_test

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// cascade: a Namespace in which others have objects is deleted with them only if another client
// than Orrery allows that at the location. What a hub sends, or an agent wrote, allows nothing.
func cascade(s *site) {
	t, name := s.t, s.name+"-shared"
	namespaces := s.client.CoreV1().Namespaces()
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":{"orrery.dev/cascade":"true","note":"x"},"name":%q}}`, name)
	key := "team/core/namespaces/" + name
	s.hub.Put(key, "uid-n", text)
	s.start()
	s.reports(key, wire.Applied, "")
	for i := range 100 {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("theirs-", i)}}
		if _, err := s.client.CoreV1().ConfigMaps(name).Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || n.Annotations["note"] != "x" || n.Annotations[v1alpha1.CascadeAnnotation] != "" {
		t.Errorf("the annotations at the location: %v %v", n.Annotations, err)
	}
	allow := func(manager string) {
		t.Helper()
		if _, err := namespaces.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"orrery.dev/cascade":"true"}}}`),
			metav1.PatchOptions{FieldManager: manager}); err != nil {
			t.Fatal(err)
		}
	}
	allow("orrery/" + s.name + ".0a1b2c3d") // as an earlier agent did
	s.hub.Del(key, wire.Unassigned)
	if r := s.reports(key, wire.Orphaned, v1alpha1.ReasonInUse); !strings.Contains(r.Message, v1alpha1.CascadeAnnotation) {
		t.Errorf("message %q", r.Message)
	}
	there := func() error {
		n, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && n.DeletionTimestamp != nil {
			err = fmt.Errorf("it is being deleted")
		}
		return err
	}
	env.Throughout(t, time.Second, there)

	if _, err := namespaces.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"orrery.dev/cascade":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	allow("kubectl-annotate")
	s.halt() // it would look again within a minute
	s.start()
	env.Eventually(t, soon, func() error {
		if there() == nil {
			return fmt.Errorf("it is not being deleted")
		}
		return nil
	})
}
