package agent_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// podTemplate is that of the workloads of these tests, with the version of an image.
const podTemplate = `{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"x","image":"x:%s"}]}}`

// workload is an apps/v1 object of the site, with further fields of its spec.
func (s *site) workload(kind, spec, version string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":%q,"metadata":{"name":"x","namespace":%q},"spec":{%s"selector":{"matchLabels":{"app":"x"}},"template":%s}}`,
		kind, s.name, spec, fmt.Sprintf(podTemplate, version))
}

// staleDefaults changes fields whose former defaults, which no field manager owns, the API server refuses beside the new values.
func staleDefaults(s *site) {
	t := s.t
	deployment, set, service := "team/apps/deployments/"+s.name+"/x", "team/apps/statefulsets/"+s.name+"/x", "team/core/services/"+s.name+"/x"
	port := `"ports":[{"port":80,"protocol":"TCP"}]`
	serviceWith := func(spec string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x","namespace":%q},"spec":{%s}}`, s.name, spec+port)
	}
	s.hub.Put(deployment, "uid-d", s.workload("Deployment", "", "1"))
	s.hub.Put(set, "uid-s", s.workload("StatefulSet", `"serviceName":"x",`, "1"))
	s.hub.Put(service, "uid-v", serviceWith(`"sessionAffinity":"ClientIP",`))
	s.start()
	for _, k := range []string{deployment, set, service} {
		s.reports(k, wire.Applied, "")
	}
	is := func(strategy, update, affinity, image string) {
		t.Helper()
		env.Eventually(t, soon, func() error {
			d, err := s.client.AppsV1().Deployments(s.name).Get(t.Context(), "x", metav1.GetOptions{})
			if err != nil {
				return err
			}
			ss, err := s.client.AppsV1().StatefulSets(s.name).Get(t.Context(), "x", metav1.GetOptions{})
			if err != nil {
				return err
			}
			v, err := s.client.CoreV1().Services(s.name).Get(t.Context(), "x", metav1.GetOptions{})
			if err != nil {
				return err
			}
			got := fmt.Sprint(d.Spec.Strategy.Type, ss.Spec.UpdateStrategy.Type, v.Spec.SessionAffinity, d.Spec.Template.Spec.Containers[0].Image, ss.Spec.Template.Spec.Containers[0].Image)
			if want := fmt.Sprint(strategy, update, affinity, "x:"+image, "x:"+image); got != want {
				return fmt.Errorf("it is %s, want %s", got, want)
			}
			return nil
		})
		for _, k := range []string{deployment, set, service} {
			s.reports(k, wire.Applied, "")
		}
	}
	s.hub.Put(deployment, "uid-d", s.workload("Deployment", `"strategy":{"type":"Recreate"},`, "1"))
	s.hub.Put(set, "uid-s", s.workload("StatefulSet", `"serviceName":"x","updateStrategy":{"type":"OnDelete"},`, "1"))
	s.hub.Put(service, "uid-v", serviceWith(`"sessionAffinity":"None",`))
	is("Recreate", "OnDelete", "None", "1")
	s.hub.Put(deployment, "uid-d", s.workload("Deployment", `"strategy":{"type":"Recreate"},`, "2"))
	s.hub.Put(set, "uid-s", s.workload("StatefulSet", `"serviceName":"x","updateStrategy":{"type":"OnDelete"},`, "2"))
	is("Recreate", "OnDelete", "None", "2")
	s.hub.Put(deployment, "uid-d", s.workload("Deployment", "", "3"))
	s.hub.Put(set, "uid-s", s.workload("StatefulSet", `"serviceName":"x",`, "3"))
	s.hub.Put(service, "uid-v", serviceWith(`"sessionAffinity":"ClientIP",`))
	is("RollingUpdate", "RollingUpdate", "ClientIP", "3")
}

// ownedValue refuses, as before, a value that another field manager has set.
func ownedValue(s *site) {
	t := s.t
	deployment := "team/apps/deployments/" + s.name + "/x"
	s.hub.Put(deployment, "uid-d", s.workload("Deployment", "", "1"))
	s.start()
	s.reports(deployment, wire.Applied, "")
	d, err := s.client.AppsV1().Deployments(s.name).Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.Spec.Strategy.RollingUpdate.MaxSurge.IntVal, d.Spec.Strategy.RollingUpdate.MaxSurge.StrVal, d.Spec.Strategy.RollingUpdate.MaxSurge.Type = 3, "", 0
	if _, err := s.client.AppsV1().Deployments(s.name).Update(t.Context(), d, metav1.UpdateOptions{FieldManager: "operator"}); err != nil {
		t.Fatal(err)
	}
	s.hub.Put(deployment, "uid-d", s.workload("Deployment", `"strategy":{"type":"Recreate"},`, "1"))
	s.reports(deployment, wire.Failed, "Invalid")
}

// handedToAutoscalers releases the number of replicas, removes it from the source, and then takes the release away. No source
// writes it any more, so it stays as it is.
func handedToAutoscalers(s *site) {
	t := s.t
	deployment := "team/apps/deployments/" + s.name + "/x"
	released := wire.Policy{Release: "$.spec.replicas"}
	runs := func(want int32, image string) {
		t.Helper()
		env.Eventually(t, soon, func() error {
			d, err := s.client.AppsV1().Deployments(s.name).Get(t.Context(), "x", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := *d.Spec.Replicas; got != want || d.Spec.Template.Spec.Containers[0].Image != "x:"+image {
				return fmt.Errorf("%d replicas of %s, want %d of x:%s", got, d.Spec.Template.Spec.Containers[0].Image, want, image)
			}
			return nil
		})
		s.reports(deployment, wire.Applied, "")
	}
	s.hub.Put(deployment, "uid-d", s.workload("Deployment", `"replicas":4,`, "1"))
	s.start()
	runs(4, "1")
	s.hub.PutWith(deployment, "uid-d", s.workload("Deployment", `"replicas":4,`, "2"), released)
	runs(4, "2")
	s.hub.PutWith(deployment, "uid-d", s.workload("Deployment", "", "3"), released)
	runs(4, "3")
	s.hub.Put(deployment, "uid-d", s.workload("Deployment", "", "4"))
	runs(4, "4")
	s.hub.Put(deployment, "uid-d", s.workload("Deployment", `"replicas":2,`, "5"))
	runs(2, "5")
}

// otherSources changes values in elements of lists that have defaults of their own: these go with them.
func otherSources(s *site) {
	t := s.t
	deployment := "team/apps/deployments/" + s.name + "/x"
	with := func(env, probe, volume string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","namespace":%q},"spec":{"selector":{"matchLabels":{"app":"x"}},"template":`+
			`{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"x","image":"x","env":[{"name":"e",%s}],"livenessProbe":{%s}}],"volumes":[{"name":"v",%s}]}}}}`,
			s.name, env, probe, volume)
	}
	s.hub.Put(deployment, "uid-d", with(`"valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}`, `"httpGet":{"port":80}`, `"configMap":{"name":"c"}`))
	s.start()
	s.reports(deployment, wire.Applied, "")
	s.hub.Put(deployment, "uid-d", with(`"value":"1"`, `"exec":{"command":["c"]}`, `"secret":{"secretName":"c"}`))
	env.Eventually(t, soon, func() error {
		d, err := s.client.AppsV1().Deployments(s.name).Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod := d.Spec.Template.Spec; pod.Containers[0].Env[0].Value != "1" || pod.Containers[0].LivenessProbe.Exec == nil || pod.Volumes[0].Secret == nil {
			return fmt.Errorf("it is %+v", pod)
		}
		return nil
	})
	s.reports(deployment, wire.Applied, "")
}
