package placement

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

func drawLabels(t *rapid.T) map[string]string {
	m := map[string]string{}
	for _, k := range []string{"k", "l"} {
		if v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "label "+k); v != "" {
			m[k] = v
		}
	}
	return m
}

func drawSelector(t *rapid.T) metav1.LabelSelector {
	switch rapid.IntRange(0, 5).Draw(t, "selector") {
	case 0:
		return metav1.LabelSelector{}
	case 1:
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Exists"}}}
	case 2:
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Bad"}}}
	default:
		return metav1.LabelSelector{MatchLabels: map[string]string{
			rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key"): rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value"),
		}}
	}
}

func drawSome(t *rapid.T, label string, choices ...string) []string {
	if rapid.IntRange(0, 2).Draw(t, "has "+label) > 0 {
		return nil
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(choices), 1, 2, rapid.ID).Draw(t, label)
}

func drawSelectors(t *rapid.T, label string) []metav1.LabelSelector {
	if rapid.IntRange(0, 2).Draw(t, "has "+label) > 0 {
		return nil
	}
	return rapid.SliceOfN(rapid.Custom(drawSelector), 1, 2).Draw(t, label)
}

func drawSpec(t *rapid.T) v1alpha1.PlacementSpec {
	spec := v1alpha1.PlacementSpec{Suspend: rapid.IntRange(0, 3).Draw(t, "suspend") == 0}
	spec.WaitForRemoval = rapid.IntRange(0, 2).Draw(t, "waitForRemoval") == 0
	spec.OnConflict = rapid.SampledFrom([]v1alpha1.OnConflict{"", "Fail", "Adopt"}).Draw(t, "onConflict")
	spec.OnImmutable = rapid.SampledFrom([]v1alpha1.OnImmutable{"", "Fail", "Recreate"}).Draw(t, "onImmutable")
	spec.OnRemove = rapid.SampledFrom([]v1alpha1.OnRemove{"", "Delete", "Orphan", "AfterFinalizers"}).Draw(t, "onRemove")
	spec.OnDrift = rapid.SampledFrom([]v1alpha1.OnDrift{"", "Repair", "Report"}).Draw(t, "onDrift")
	spec.Locations = drawLocations(t)
	if rapid.IntRange(0, 2).Draw(t, "picks") == 0 {
		spec.Pick = &v1alpha1.Pick{Count: rapid.Int32Range(1, 3).Draw(t, "count"), SpreadBy: rapid.SampledFrom([]string{"", "k"}).Draw(t, "spreadBy")}
	}
	for range max(0, rapid.IntRange(0, 3).Draw(t, "tolerations")-1) {
		spec.Tolerations = append(spec.Tolerations, v1alpha1.Toleration{
			Key:      rapid.SampledFrom([]string{"", "t", "u"}).Draw(t, "tolerated"),
			Operator: rapid.SampledFrom([]v1alpha1.TolerationOperator{"", "Equal", "Exists"}).Draw(t, "operator"),
			Value:    rapid.SampledFrom([]string{"", "1"}).Draw(t, "tolerated value"), Effect: rapid.SampledFrom([]v1alpha1.TaintEffect{"", "NoPlace", "Evict"}).Draw(t, "tolerated effect"),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "tests") {
		d := v1alpha1.Downsync{ObjectTest: drawTest(t)}
		d.ReturnStatus = rapid.SampledFrom([]v1alpha1.ReturnStatus{"", "", "None", "Singleton", "Rollup"}).Draw(t, "returnStatus")
		d.CreateOnly = rapid.Bool().Draw(t, "createOnly")
		for range max(0, rapid.IntRange(0, 3).Draw(t, "associated")-1) {
			d.Associated = append(d.Associated, v1alpha1.AssociatedKinds{
				APIGroup:  rapid.SampledFrom([]string{"", "apps"}).Draw(t, "group of what it owns"),
				Resources: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"pods", "replicasets"}), 1, 2, rapid.ID).Draw(t, "what it owns"),
			})
		}
		d.FollowReferences = rapid.IntRange(0, 2).Draw(t, "follows") > 0
		spec.Downsync = append(spec.Downsync, d)
	}
	for range max(0, rapid.IntRange(0, 4).Draw(t, "upsync")-2) {
		spec.Upsync = append(spec.Upsync, drawUpsync(t))
	}
	return spec
}

// drawFollows draws a status.follows.
func drawFollows(t *rapid.T) (status v1alpha1.PlacementStatus) {
	for i := range rapid.IntRange(0, 2).Draw(t, "entries that follow") {
		status.Follows = append(status.Follows, v1alpha1.Follows{Entry: int32(i), Resources: drawFollowedKinds(t)})
	}
	return status
}

// drawReferences draws what an object refers to, if it is of a kind that does.
func drawReferences(t *rapid.T, o key.Object) (to []key.Identity) {
	maybe := func(resource string, names ...string) {
		if name := rapid.SampledFrom(append(names, "")).Draw(t, "refers to "+resource); name != "" {
			to = append(to, objectAt(o.Space, "", resource, o.Namespace, name).Identity)
		}
	}
	switch o.Resource.Resource {
	case "deployments":
		maybe("serviceaccounts", "x", "none")
		maybe("configmaps", "x", "xy")
		maybe("secrets", "x")
	case "serviceaccounts":
		maybe("secrets", "x", "none")
	}
	return to
}

// drawFollowed draws a Placement that matches objects with references.
func drawFollowed(t *rapid.T) (spec v1alpha1.PlacementSpec, status v1alpha1.PlacementStatus) {
	spec, status = drawSpec(t), v1alpha1.PlacementStatus{}
	spec.Locations = []v1alpha1.LocationSelector{{Names: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "at")}}
	spec.Downsync = nil
	for i := range rapid.IntRange(1, 2).Draw(t, "followed entries") {
		d := v1alpha1.Downsync{FollowReferences: true, CreateOnly: rapid.Bool().Draw(t, "createOnly")}
		d.Resources = []string{rapid.SampledFrom([]string{"deployments", "deployments", "serviceaccounts", "widgets", "configmaps"}).Draw(t, "followed")}
		if rapid.Bool().Draw(t, "of its group alone") { // then the references are outside of the key ranges of the Placement
			d.APIGroup = new(map[string]string{"deployments": "apps", "widgets": "example.com"}[d.Resources[0]])
		}
		d.ReturnStatus = rapid.SampledFrom([]v1alpha1.ReturnStatus{"", "None", "Singleton", "Rollup"}).Draw(t, "returnStatus")
		spec.Downsync = append(spec.Downsync, d)
		status.Follows = append(status.Follows, v1alpha1.Follows{Entry: int32(i), Resources: drawFollowedKinds(t)})
	}
	return spec, status
}

func drawFollowedKinds(t *rapid.T) []string {
	return rapid.SampledFrom([][]string{
		{"configmaps"}, {"configmaps", "serviceaccounts", "customresourcedefinitions"},
		{"configmaps", "serviceaccounts", "customresourcedefinitions", "secrets"}, {"secrets"},
	}).Draw(t, "resources that follow")
}

func drawLocations(t *rapid.T) (entries []v1alpha1.LocationSelector) {
	for range rapid.IntRange(0, 2).Draw(t, "location entries") {
		entry := v1alpha1.LocationSelector{Names: drawSome(t, "location names", "a", "b", "c", "none")}
		if rapid.Bool().Draw(t, "by selector") {
			selector := drawSelector(t)
			entry.Selector = &selector
		}
		entries = append(entries, entry)
	}
	return entries
}

func drawTest(t *rapid.T) (test v1alpha1.ObjectTest) {
	if group := rapid.SampledFrom([]string{"absent", "absent", "", "apps", "*"}).Draw(t, "apiGroup"); group != "absent" {
		test.APIGroup = &group
	}
	test.Resources = drawSome(t, "resources", "configmaps", "deployments", "namespaces", "events", "*")
	test.Namespaces = drawSome(t, "namespaces", "n1", "n2")
	test.Names = drawSome(t, "names", "x", "n1")
	test.NamespaceSelectors = drawSelectors(t, "namespaceSelectors")
	test.LabelSelectors = drawSelectors(t, "labelSelectors")
	if rapid.IntRange(0, 7).Draw(t, "of releases") == 0 {
		test.HelmReleases = []v1alpha1.HelmRelease{{Namespace: "n1", Name: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "release")}}
	}
	return test
}

// drawLocation draws the spec of a location, and when its taints came as its status says.
func drawLocation(t *rapid.T, rev int64) (spec v1alpha1.LocationSpec, status v1alpha1.LocationStatus) {
	if rapid.IntRange(0, 2).Draw(t, "admits") == 0 {
		spec.Admit = drawAdmit(t)
	}
	spec.Namespaces = rapid.SampledFrom([]v1alpha1.NamespacePlacing{"", "", "Same", "Prefixed"}).Draw(t, "namespaces")
	if rapid.IntRange(0, 3).Draw(t, "has properties") == 0 {
		spec.Properties = map[string]apiextensionsv1.JSON{"p": {Raw: []byte(rapid.SampledFrom([]string{"1", `"x"`}).Draw(t, "property"))}}
	}
	for range max(0, rapid.IntRange(0, 3).Draw(t, "taints")-1) {
		taint := v1alpha1.Taint{
			Key: rapid.SampledFrom([]string{"t", "u"}).Draw(t, "taint"), Value: rapid.SampledFrom([]string{"", "1"}).Draw(t, "value"),
			Effect: rapid.SampledFrom([]v1alpha1.TaintEffect{"NoPlace", "NoPlace", "Evict"}).Draw(t, "effect"),
		}
		spec.Taints = append(spec.Taints, taint)
		if since := rapid.Int64Range(0, rev).Draw(t, "since"); since > 0 {
			status.Taints = append(status.Taints, v1alpha1.TaintStatus{Key: taint.Key, Effect: taint.Effect, ResourceVersion: fmt.Sprint(since)})
		}
	}
	return spec, status
}

func drawAdmit(t *rapid.T) []v1alpha1.Admit {
	all := []v1alpha1.Admit{}
	for range rapid.IntRange(0, 3).Draw(t, "admit entries") {
		var e v1alpha1.Admit
		if rapid.IntRange(0, 2).Draw(t, "of spaces") > 0 {
			e.Spaces = &v1alpha1.SpaceSelector{Names: drawSome(t, "space names", "s1", "s2", "none")}
			if rapid.Bool().Draw(t, "by selector") {
				selector := drawSelector(t)
				e.Spaces.Selector = &selector
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, "kinds") {
			test := drawTest(t)
			e.Kinds = append(e.Kinds, v1alpha1.KindTest{APIGroup: test.APIGroup, Resources: test.Resources})
		}
		e.Namespaces = drawSome(t, "admitted namespaces", "n1", "n2")
		if account := rapid.SampledFrom([]string{"", "", "ns/a", "ns/b"}).Draw(t, "account"); account != "" {
			e.Impersonate = &v1alpha1.Impersonate{ServiceAccount: account}
		}
		all = append(all, e)
	}
	return all
}

func drawCustomizer(t *rapid.T) v1alpha1.CustomizerSpec {
	spec := v1alpha1.CustomizerSpec{Locations: drawLocations(t), Priority: rapid.Int32Range(-1, 1).Draw(t, "priority")}
	for range rapid.IntRange(0, 2).Draw(t, "tests") {
		spec.Match = append(spec.Match, drawTest(t))
	}
	for range max(0, rapid.IntRange(0, 3).Draw(t, "data")-1) {
		spec.Data = append(spec.Data, v1alpha1.CustomizerData{ConfigMap: v1alpha1.ConfigMapReference{
			Namespace: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "data namespace"), Name: rapid.SampledFrom([]string{"x", "xy"}).Draw(t, "data name"),
		}})
	}
	for range rapid.IntRange(0, 3).Draw(t, "rules") {
		spec.Rules = append(spec.Rules, v1alpha1.Rule{
			Path:    rapid.SampledFrom(append(slices.Clone(worldPaths), "$", "bad")).Draw(t, "path"),
			Release: rapid.IntRange(0, 2).Draw(t, "release") > 0,
		})
	}
	return spec
}

func (f focus) drawNotes(t *rapid.T) map[string]string {
	if rapid.IntRange(1, 3).Draw(t, "assigned directly") > f.assigned {
		return map[string]string{"other": "note"}
	}
	return map[string]string{
		v1alpha1.AssignedLocationsAnnotation: rapid.SampledFrom([]string{
			`["a"]`, `["b","a"]`, `["a","b","c"]`, `["none","c","c"]`, `[]`, `a`, `["a"`, `{"a":1}`, `[1]`, `null`, "",
		}).Draw(t, "assigned"),
		v1alpha1.ReturnStatusAnnotation: rapid.SampledFrom([]string{"", "None", "Singleton", "Rollup", "Sometimes"}).Draw(t, "return"),
	}
}

// drawChange changes one thing of the world and returns its key.
func (w world) drawChange(t *rapid.T, f focus, rev int64) string {
	var k string
	next := thing{createRev: rev, uid: fmt.Sprintf("u%d", rev)}
	switch rapid.SampledFrom(f.kinds).Draw(t, "kind of change") {
	case spacing:
		k = spaceAt(rapid.SampledFrom(worldSpaces).Draw(t, "space")).Key()
		next.labels = drawLabels(t)
	case locating:
		k = locationAt(rapid.SampledFrom(worldLocations).Draw(t, "location")).Key()
		next.labels = drawLabels(t)
		next.spec, next.status = drawLocation(t, rev)
		if f.binds && rapid.Bool().Draw(t, "of spaces") {
			next.spec, next.status = drawSite(t), nil
		}
		if rapid.IntRange(0, 19).Draw(t, "malformed") == 0 {
			next.spec = map[string]any{"admit": "everything"}
		}
	case placing:
		space := rapid.SampledFrom(f.placers).Draw(t, "space")
		k = placementAt(space, rapid.SampledFrom([]string{"p", "q"}).Draw(t, "placement")).Key()
		spec, status := drawSpec(t), drawFollows(t)
		if f.follows {
			spec, status = drawFollowed(t)
		} else if f.binds {
			spec, status = drawBinder(t)
		}
		if rapid.IntRange(0, 9).Draw(t, "reaches")%9 == 0 == (space != key.Root) { // seldom elsewhere, where it is refused
			spec.Spaces = &v1alpha1.SpaceSelector{Names: drawSome(t, "reached", "s1", "s2", "none")}
			if rapid.IntRange(0, 3).Draw(t, "by selector") > 0 {
				selector := drawSelector(t)
				spec.Spaces.Selector = &selector
			}
		}
		next.spec, next.status = spec, status
		if rapid.IntRange(0, 9).Draw(t, "malformed") == 0 {
			next.spec = map[string]any{"locations": "everywhere"}
		}
	case customizing:
		space := rapid.SampledFrom(worldSpaces).Draw(t, "space")
		k = customizerAt(space, rapid.SampledFrom(worldCustomizers).Draw(t, "customizer")).Key()
		next.spec = drawCustomizer(t)
		if rapid.IntRange(0, 9).Draw(t, "malformed") == 0 {
			next.spec = map[string]any{"rules": "none"}
		}
	case rebinding:
		k = bindingAt(rapid.SampledFrom(worldSpaces).Draw(t, "consumer"), rapid.SampledFrom([]string{"b1", "b1", "b2"}).Draw(t, "binding")).Key()
		w.drawBinding(t, &next)
	case reporting:
		o := rapid.SampledFrom(f.objects).Draw(t, "reported object")
		k = key.Report{Location: rapid.SampledFrom(worldLocations).Draw(t, "by"), Origin: key.Placed, Object: o}.Key()
		next.report = w.drawReport(t, o)
	case writing:
		o := rapid.SampledFrom(f.objects).Draw(t, "object")
		k = o.Key()
		next.labels, next.annotations = drawLabels(t), f.drawNotes(t)
		if release := rapid.SampledFrom([]string{"", "", "r1", "r2"}).Draw(t, "release"); release != "" {
			next.labels["app.kubernetes.io/managed-by"] = rapid.SampledFrom([]string{"Helm", "other"}).Draw(t, "manager")
			next.annotations["meta.helm.sh/release-name"], next.annotations["meta.helm.sh/release-namespace"] = release, "n1"
		}
		next.spec = rev
		if o.Resource == key.CRDs {
			next.spec = rapid.Int64Range(1, 2).Draw(t, "definition")
		}
		if rapid.Bool().Draw(t, "expands") {
			next.annotations[v1alpha1.ExpandAnnotation] = rapid.SampledFrom([]string{"true", "true", "false"}).Draw(t, "expand")
		}
		if v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "datum"); v != "" {
			next.data = map[string]string{"a": v}
		}
		next.withReferences(o, drawReferences(t, o))
		for range max(0, rapid.IntRange(0, 3).Draw(t, "managers")-1) {
			next.managers = append(next.managers, manager{
				rapid.SampledFrom([]string{"orrery-status", "somebody"}).Draw(t, "manager of a field"), rapid.SampledFrom([]string{"f:status", "f:data"}).Draw(t, "field"),
			})
		}
	}
	old := w[k]
	if old != nil && rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
		delete(w, k)
		return k
	}
	if old != nil && rapid.IntRange(0, 9).Draw(t, "replace") > 1 {
		next.createRev, next.uid = old.createRev, old.uid
	}
	next.deleting = next.report == nil && rapid.IntRange(0, 6).Draw(t, "deleting") == 0
	next.finalized = next.deleting && rapid.Bool().Draw(t, "finalized")
	w[k] = &next
	return k
}

func (w world) drawReport(t *rapid.T, o key.Object) *wire.Report {
	r := &wire.Report{UID: "stale", State: rapid.SampledFrom([]wire.State{
		wire.Applied, wire.Failed, wire.Held, wire.InConflict, wire.Waiting, wire.Removing,
	}).Draw(t, "state")}
	if x := w[o.Key()]; x != nil && rapid.IntRange(0, 3).Draw(t, "fresh") > 0 {
		r.UID = x.uid
	}
	if rapid.Bool().Draw(t, "was applied") {
		r.Digest = wire.SumOf([]byte("x"))
	}
	return r
}
