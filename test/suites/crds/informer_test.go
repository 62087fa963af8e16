package crds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"orrery.dev/orrery/test/support/env"
)

// informer shows that an informer that starts before its resource exists syncs once it does, follows
// changes of the schema, and receives the deletion of all objects.
func informer(t *testing.T, h hubOfAll) {
	s := h.space(t, "informer")
	i := dynamicinformer.NewFilteredDynamicInformer(s.client, widgets, "", 0, cache.Indexers{}, nil).Informer()
	go i.RunWithContext(t.Context())
	cached := func(want ...string) {
		t.Helper()
		env.Eventually(t, 2*soon, func() error {
			var got []string
			for _, o := range i.GetStore().List() {
				u := o.(*unstructured.Unstructured)
				spec, _ := u.Object["spec"].(map[string]any)
				got = append(got, strings.TrimSpace(fmt.Sprint(u.GetName(), " ", spec)))
			}
			slices.Sort(got)
			if !i.HasSynced() || !slices.EqualFunc(got, want, func(g, w string) bool { return slices.Contains(strings.Split(w, " or "), g) }) {
				return fmt.Errorf("synced %v: %q, want %q", i.HasSynced(), got, want)
			}
			return nil
		})
	}
	s.apply(crd("widgets", "Widget", "{type: object, properties: {size: {type: integer}, old: {type: integer}}}", ""))
	s.apply(widget("a", "{size: 1, old: 2}"))
	cached("a map[old:2 size:1]")
	s.apply(crd("widgets", "Widget", "{type: object, properties: {size: {type: integer}, colour: {type: string, default: red}}}", ""))
	s.apply(widget("b", "{size: 2}"))
	// client-go lists again only after a very short watch, so it may have the old or the new form.
	cached("a map[old:2 size:1] or a map[colour:red size:1]", "b map[colour:red size:2]")
	// New requests read stored objects by the new schema.
	s.prints("a red", "get", "widget", "a", "-o", "jsonpath={.metadata.name} {.spec.colour}")
	s.kubectl("label", "widget", "a", "x=y")
	cached("a map[colour:red size:1]", "b map[colour:red size:2]")
	s.kubectl("delete", "crd", "widgets.shop.example", "--wait")
	cached()
	s.apply(crd("widgets", "Widget", "{type: object, properties: {other: {type: integer}}}", ""))
	s.apply(widget("c", "{other: 1}"))
	cached("c map[other:1]")
}
