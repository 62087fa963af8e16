package agent_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// again are objects that are deleted in the space and made again under their names.
type again struct {
	*site
	// uids are those at the location before.
	uids map[string]types.UID
	// port and address are of a Service, which no other has; the address lacks its end.
	port, address string
	// before is the template of the Deployment before.
	before string
}

// made is each object as it is first, and as it is made again.
func (a *again) made() map[string][2]string {
	service := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"namespace":%q},"spec":{%s"selector":{"app":"a"}}}`, name, a.name, cmp.Or(spec, `"ports":[{"port":80}],`))
	}
	job := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":%q,"namespace":%q},
"spec":{"template":{"spec":{"containers":[{"image":"x","name":"c"}],"restartPolicy":"Never"}}}}`, name, a.name)
	}
	claim := func(class string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"claim","namespace":%q},
"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":%q}}`, a.name, class)
	}
	return map[string][2]string{
		"core/configmaps/fixed":  {a.fixedMap("fixed", "1"), a.fixedMap("fixed", "2")},
		"core/configmaps/left":   {a.fixedMap("left", "1"), a.fixedMap("left", "2")},
		"core/services/headless": {service("headless", `"clusterIP":"None","ports":[{"port":80}],`), service("headless", "")},
		"core/services/ordinary": {service("ordinary", ""), service("ordinary", `"clusterIP":"None","ports":[{"port":80}],`)},
		"core/services/ported": {
			service("ported", `"type":"NodePort","clusterIP":"`+a.address+`1","ports":[{"port":80,"nodePort":`+a.port+`}],`),
			service("ported", `"type":"NodePort","clusterIP":"`+a.address+`2","ports":[{"port":80,"nodePort":`+a.port+`}],`),
		},
		"core/services/same":                {service("same", `"clusterIP":"None","ports":[{"port":80}],`), service("same", `"clusterIP":"None","ports":[{"port":80}],`)},
		"core/persistentvolumeclaims/claim": {claim("one"), claim("two")},
		"batch/jobs/done":                   {job("done"), job("done")},
		"batch/jobs/kept":                   {job("kept"), job("kept")},
		"apps/deployments/web":              {a.deployment("web", "nobody"), a.deployment("web", "nobody")},
	}
}

func (a *again) key(what string) string {
	resource, name := what[:strings.LastIndex(what, "/")], what[strings.LastIndex(what, "/")+1:]
	return "team/" + resource + "/" + a.name + "/" + name
}

func (a *again) meta(what string) (*metav1.ObjectMeta, error) {
	name := what[strings.LastIndex(what, "/")+1:]
	var o metav1.ObjectMetaAccessor
	var err error
	ctx, core := a.t.Context(), a.client.CoreV1()
	switch {
	case strings.Contains(what, "configmaps"):
		o, err = core.ConfigMaps(a.name).Get(ctx, name, metav1.GetOptions{})
	case strings.Contains(what, "services"):
		o, err = core.Services(a.name).Get(ctx, name, metav1.GetOptions{})
	case strings.Contains(what, "claims"):
		o, err = core.PersistentVolumeClaims(a.name).Get(ctx, name, metav1.GetOptions{})
	case strings.Contains(what, "jobs"):
		o, err = a.client.BatchV1().Jobs(a.name).Get(ctx, name, metav1.GetOptions{})
	default:
		o, err = a.client.AppsV1().Deployments(a.name).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	return o.GetObjectMeta().(*metav1.ObjectMeta), nil
}

// complete has a Job run to its end, as its controller would say.
func (a *again) complete(name string) {
	a.t.Helper()
	jobs, now := a.client.BatchV1().Jobs(a.name), metav1.Now()
	j, err := jobs.Get(a.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	j.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
	}}
	if _, err := jobs.UpdateStatus(a.t.Context(), j, metav1.UpdateOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

// place has the hub place all objects, the first ones in turn 0.
func (a *again) place(turn int) {
	for what, texts := range a.made() {
		policy := wire.Policy{Orphan: strings.HasSuffix(what, "/left") || strings.HasSuffix(what, "/kept")}
		if turn > 0 {
			a.hub.Del(a.key(what), wire.Deleted)
		}
		a.hub.PutWith(a.key(what), fmt.Sprint("uid-", what, "-", turn), texts[turn], policy)
	}
}

// begin makes the first objects, of which the Jobs run to their end.
func (a *again) begin() {
	t := a.t
	a.place(0)
	a.start()
	for what := range a.made() {
		a.reports(a.key(what), wire.Applied, "")
	}
	for _, name := range []string{"done", "kept"} {
		a.complete(name)
		a.reports(a.key("batch/jobs/"+name), wire.Applied, v1alpha1.ReasonCompleted)
	}
	for what := range a.made() {
		m, err := a.meta(what)
		if err != nil {
			t.Fatal(err)
		}
		a.uids[what] = m.UID
	}
	var err error
	if a.before, err = a.template("web"); err != nil {
		t.Fatal(err)
	}
}

// template is the Pod template of a Deployment.
func (a *again) template(name string) (string, error) {
	d, err := a.client.AppsV1().Deployments(a.name).Get(a.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return d.Spec.Template.String(), nil
}

// collect ends the deletion of a Job, as the garbage collector does when its Pods have ended.
func (a *again) collect(name string) {
	a.t.Helper()
	env.Eventually(a.t, soon, func() error {
		m, err := a.meta("batch/jobs/" + name)
		if apierrors.IsNotFound(err) || err == nil && m.UID != a.uids["batch/jobs/"+name] {
			return nil
		}
		if err == nil && m.DeletionTimestamp == nil {
			err = errors.New("it is not being deleted")
		}
		if err != nil {
			return err
		}
		_, err = a.client.BatchV1().Jobs(a.name).Patch(a.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
}

// check waits until what can't be changed in place was replaced, and what can be was not.
func (a *again) check() {
	t := a.t
	a.collect("done")
	for what, replaced := range map[string]bool{
		"core/configmaps/fixed": true, "core/services/headless": true, "core/services/ordinary": true, "core/services/ported": true, "batch/jobs/done": true,
		"core/services/same": false, "apps/deployments/web": false,
	} {
		r := a.reports(a.key(what), wire.Applied, "")
		env.Eventually(t, soon, func() error {
			m, err := a.meta(what)
			if err == nil && ((m.UID != a.uids[what]) != replaced || m.Annotations[v1alpha1.SourceUIDAnnotation] != "uid-"+what+"-1") {
				err = fmt.Errorf("%s is %s (was %s) of %s, reported %+v", what, m.UID, a.uids[what], m.Annotations[v1alpha1.SourceUIDAnnotation], r)
			}
			return err
		})
	}
	env.Eventually(t, soon, a.hasValue("fixed", "2"))
	if template, err := a.template("web"); err != nil || template != a.before {
		t.Errorf("the Pods of the Deployment were changed: %s, before %s: %v", template, a.before, err)
	}
	for name, headless := range map[string]bool{"headless": false, "ordinary": true, "same": true} {
		s, err := a.client.CoreV1().Services(a.name).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || (s.Spec.ClusterIP == corev1.ClusterIPNone) != headless {
			t.Errorf("%s has the address %s: %v", name, s.Spec.ClusterIP, err)
		}
	}
	// What was to stay when it was no longer assigned stays, and so does stored data.
	a.reports(a.key("core/configmaps/left"), wire.Failed, v1alpha1.ReasonImmutable)
	a.reports(a.key("batch/jobs/kept"), wire.InConflict, v1alpha1.ReasonExists)
	if r := a.reports(a.key("core/persistentvolumeclaims/claim"), wire.Failed, v1alpha1.ReasonImmutable); !strings.Contains(r.Message, v1alpha1.RecreateAnnotation) {
		t.Errorf("the claim: %s", r.Message)
	}
	for _, what := range []string{"core/configmaps/left", "batch/jobs/kept", "core/persistentvolumeclaims/claim"} {
		if m, err := a.meta(what); err != nil || m.UID != a.uids[what] {
			t.Errorf("%s was replaced: %v", what, err)
		}
	}
	// The Job that runs again completes for itself.
	a.complete("done")
	a.reports(a.key("batch/jobs/done"), wire.Applied, v1alpha1.ReasonCompleted)
	env.Eventually(t, soon, func() error {
		if n := a.hub.AgentStatus().Prune; n != nil {
			return errors.New("a removal waits")
		}
		return nil
	})
}

// madeAgain: objects are deleted in the space and made again under their names, while the agent
// is away.
func madeAgain(s *site) {
	a := &again{site: s, uids: map[string]types.UID{}, port: "30091", address: "10.0.91."}
	a.begin()
	a.halt()
	a.place(1)
	a.start()
	a.check()
}

// madeAgainAndLost: the agent has lost its store meanwhile.
func madeAgainAndLost(s *site) {
	a := &again{site: s, uids: map[string]types.UID{}, port: "30092", address: "10.0.92."}
	a.begin()
	a.halt()
	a.place(1)
	if err := os.Remove(filepath.Join(a.dir, "agent.db")); err != nil {
		a.t.Fatal(err)
	}
	a.start()
	a.check()
}
