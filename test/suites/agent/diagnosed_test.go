package agent_test

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// diagnosed: the reason why an object is not healthy is that of the newest event, and no event of a ReplicaSet counts
// beside its conditions. It is read with the rights of the account that the desired policy names: after a change of that
// the former account reads nothing, and what it has read is not reported.
func diagnosed(s *site) {
	t, ctx := s.t, s.t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, metav1.CreateOptions{})
	ok(err)
	reads := []rbacv1.PolicyRule{rule("apps", "replicasets", "list"), rule("", "pods", "list"), rule("", "events", "list")}
	for name, more := range map[string][]rbacv1.PolicyRule{"one": reads, "two": nil} {
		meta := metav1.ObjectMeta{Name: name, Namespace: s.name}
		rules := append([]rbacv1.PolicyRule{rule("apps", "deployments", "get", "create", "patch", "delete")}, more...)
		_, err := s.client.RbacV1().Roles(s.name).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		ok(err)
		_, err = s.client.RbacV1().RoleBindings(s.name).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.name, Name: name}},
		}, metav1.CreateOptions{})
		ok(err)
	}
	acts := func(name string) wire.Policy { return wire.Policy{ServiceAccount: s.name + "/" + name} }
	key := s.deploymentKey("web")
	s.hub.PutWith(key, "uid-w", s.deployment("web", ""), acts("one"))
	s.start()
	s.reports(key, wire.Applied, "")

	// What the controllers of a cluster would make.
	d, err := s.client.AppsV1().Deployments(s.name).Get(ctx, "web", metav1.GetOptions{})
	ok(err)
	owned := func(name, kind, owner string, uid types.UID) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Namespace: s.name, Labels: map[string]string{"app": "a"}, Annotations: map[string]string{"deployment.kubernetes.io/revision": "1"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: owner, UID: uid}, appsv1.SchemeGroupVersion.WithKind(kind))},
		}
	}
	set, err := s.client.AppsV1().ReplicaSets(s.name).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: owned("web-1", "Deployment", "web", d.UID), Spec: appsv1.ReplicaSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template},
	}, metav1.CreateOptions{})
	ok(err)
	_, err = s.client.CoreV1().ServiceAccounts(s.name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	ok(err)
	pod, err := s.client.CoreV1().Pods(s.name).Create(ctx, &corev1.Pod{ObjectMeta: owned("web-1-a", "ReplicaSet", "web-1", set.UID), Spec: d.Spec.Template.Spec}, metav1.CreateOptions{})
	ok(err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "c", Image: "x", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
	}}
	_, err = s.client.CoreV1().Pods(s.name).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	ok(err)
	begun := time.Now()
	event := func(n int, kind, name string, uid types.UID, reason, message string) {
		t.Helper()
		last := metav1.NewTime(begun.Add(time.Duration(n) * time.Second)) // not before its creation
		_, err := s.client.CoreV1().Events(s.name).Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%06d", name, n), Namespace: s.name},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: s.name, Name: name, UID: uid}, Reason: reason, Message: message,
			FirstTimestamp: last, LastTimestamp: last, Type: corev1.EventTypeWarning,
		}, metav1.CreateOptions{})
		ok(err)
	}
	event(150, "ReplicaSet", "web-1", set.UID, "FailedCreate", "Error creating: exceeded quota")
	for n := range 120 {
		event(n, "Pod", "web-1-a", pod.UID, "FailedMount", fmt.Sprint("attempt ", n))
	}
	diagnosis := func(want string) {
		t.Helper()
		env.Eventually(t, patient, func() error {
			if r, _ := s.hub.Report(key); !strings.HasSuffix(r.Diagnosis, want) || want == "" && r.Diagnosis != "" {
				return fmt.Errorf("the diagnosis is %q, want %q", r.Diagnosis, want)
			}
			return nil
		})
	}
	diagnosis("Pod web-1-a: FailedMount: attempt 119")

	s.hub.PutWith(key, "uid-w", s.deployment("web", ""), acts("two"))
	diagnosis("")
	lists := env.Filter{UserAgent: "orrery-agent/" + s.name, Verbs: []string{"list"}, Namespace: s.name, After: time.Now()}
	users := map[string]int{}
	env.Eventually(t, patient, func() error {
		clear(users)
		for _, e := range s.c.Requests(t, lists) {
			if e.Impersonated.Username != "" {
				users[e.Impersonated.Username]++
			}
		}
		if users["system:serviceaccount:"+s.name+":two"] == 0 {
			return fmt.Errorf("lists by %v", users)
		}
		return nil
	})
	if len(users) != 1 {
		t.Errorf("lists by %v", users)
	}
	diagnosis("")
}
