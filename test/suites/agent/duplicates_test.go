package agent_test

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// duplicates places Pods with several elements of one key in lists, as a plain create takes them.
func duplicates(s *site) {
	t := s.t
	deployment := "team/apps/deployments/" + s.name + "/x"
	s.hub.Put(deployment, "uid-d", fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","namespace":%q},"spec":{"selector":{"matchLabels":{"app":"x"}},`+
		`"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"x","image":"x","env":[{"name":"e","value":"1"},{"name":"f"},{"name":"e","value":"2"}],`+
		`"ports":[{"containerPort":80},{"containerPort":80}]}],"imagePullSecrets":[{"name":"p"},{"name":"p"}]}}}}`, s.name))
	s.start()
	s.reports(deployment, wire.Applied, "")
	d, err := s.client.AppsV1().Deployments(s.name).Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		values[e.Name] = e.Value
	}
	if pod := d.Spec.Template.Spec; values["e"] != "2" || len(values) != 2 || len(pod.Containers[0].Ports) != 1 || len(pod.ImagePullSecrets) != 1 {
		t.Errorf("it is %+v", pod)
	}
}

// endedAndGone has Jobs end and be removed at once, as by a TTL of 0.
func endedAndGone(s *site) {
	t := s.t
	jobs, ctx := s.client.BatchV1().Jobs(s.name), t.Context()
	const many = 5
	var keys []string
	for i := range many {
		name := fmt.Sprint("j", i)
		keys = append(keys, "team/batch/jobs/"+s.name+"/"+name)
		s.hub.Put(keys[i], "uid-"+name, fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":%q,"namespace":%q},`+
			`"spec":{"template":{"spec":{"containers":[{"image":"x","name":"x"}],"restartPolicy":"Never"}}}}`, name, s.name))
	}
	s.start()
	for i, key := range keys {
		s.reports(key, wire.Applied, "")
		now, err := jobs.Get(ctx, fmt.Sprint("j", i), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		now.Status = batchv1.JobStatus{
			StartTime: &now.CreationTimestamp, CompletionTime: &now.CreationTimestamp, Succeeded: 1,
			Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
			},
		}
		if _, err := jobs.UpdateStatus(ctx, now, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		policy := metav1.DeletePropagationBackground
		if err := jobs.Delete(ctx, now.Name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range keys {
		env.Eventually(t, soon, func() error {
			if r, ok := s.hub.Report(key); !ok || r.Reason != "Completed" || r.Health != wire.Healthy {
				return fmt.Errorf("report of %s: %+v", key, r)
			}
			return nil
		})
	}
}
