package ownership

import (
	"fmt"
	"strings"

	"orrery.dev/orrery/test/support/env"
)

// rollout checks that kubectl rollout status in the space waits for the rollout at the location,
// also after the Deployment was created again in the cluster, where generations restart at 1.
func (s *suite) rollout() {
	s.namespace("rollout")
	web := func(image string) string {
		return strings.ReplaceAll(deployment("web", "web", image), "fixed", "rollout")
	}
	rolled := func() {
		s.Helper()
		out := env.Kubectl(s, s.kubeconfig, "-n", "rollout", "rollout", "status", "deployment/web", "--timeout="+env.Soon.String())
		if !strings.Contains(out, "successfully rolled out") {
			s.Errorf("kubectl rollout status says %s", out)
		}
	}
	s.write(web("x:one"))
	s.place("rollout", "", ", returnStatus: Singleton")
	rolled()
	s.write(web("x:two"))
	s.write(web("x:three"))
	rolled()
	s.hasField("rollout", "deploy/web", ".spec.template.spec.containers[0].image", "x:three")
	uid := s.there("-n", "rollout", "get", "deploy", "web", "-o", "jsonpath={.metadata.uid}")
	generation := env.Kubectl(s, s.kubeconfig, "-n", "rollout", "get", "deploy", "web", "-o", "jsonpath={.metadata.generation}")
	observed := func() (string, error) {
		return env.TryKubectl(s, s.kubeconfig, "-n", "rollout", "get", "deploy", "web", "-o", "jsonpath={.status.observedGeneration}")
	}

	s.there("-n", "rollout", "delete", "deploy", "web", "--cascade=foreground")
	s.eventually("the Deployment is made anew", func() error {
		now, err := s.field("rollout", "deploy/web", ".metadata.uid")
		if err == nil && now == uid {
			err = fmt.Errorf("it is still %s", uid)
		}
		return err
	})
	s.hasField("rollout", "deploy/web", ".metadata.generation", "1")
	s.hasField("rollout", "deploy/web", ".status.readyReplicas", "1")
	rolled()
	s.eventually("the status is of the source's generation", func() error {
		now, err := observed()
		if err == nil && (now != generation || generation == "1") {
			err = fmt.Errorf("observed generation %q of %s", now, generation)
		}
		return err
	})
	s.write(web("x:four"))
	rolled()
	s.hasField("rollout", "deploy/web", ".spec.template.spec.containers[0].image", "x:four")
	s.unplace("rollout")
	s.gone("rollout", "deploy/web")
}

const briefJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: ended}
spec: {ttlSecondsAfterFinished: %d, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}
`

// ended checks that the agent does not recreate a Job that it has observed as completed, although
// the cluster removes the Job while the agent is stopped. The agent recreates a Job that started,
// completed and was removed while it was stopped, since the cluster keeps no trace of that Job.
func (s *suite) ended() {
	s.namespace("ended")
	made := func(name string) (n int) {
		for _, e := range s.site.Cluster.Requests(s, env.Filter{User: env.AgentUser, Resource: "jobs", Namespace: "ended", Name: name, Writes: true}) {
			if e.Response.Code == 201 {
				n++
			}
		}
		return n
	}
	s.write(fmt.Sprintf(briefJob, "seen", 3600) + "---" + strings.Replace(fmt.Sprintf(briefJob, "unseen", 0), "spec: {", "spec: {suspend: true, ", 1))
	s.place("ended", "", "")
	s.reports("batch/jobs/ended/seen", "Applied", "Completed")
	s.reports("batch/jobs/ended/unseen", "Applied", "")
	s.allApplied()

	s.site.Agent.Stop()
	s.there("-n", "ended", "patch", "job", "seen", "--type=merge", "-p", `{"spec":{"ttlSecondsAfterFinished":0}}`)
	s.there("-n", "ended", "patch", "job", "unseen", "--type=merge", "-p", `{"spec":{"suspend":false}}`)
	s.gone("ended", "job/seen")
	s.gone("ended", "job/unseen")
	s.site.Agent.Start()
	s.eventually("the Job that completed unobserved is created again", func() error {
		if n := made("unseen"); n != 2 {
			return fmt.Errorf("it was created %d times", n)
		}
		return nil
	})
	s.reports("batch/jobs/ended/seen", "Applied", "Completed")
	env.Throughout(s, quietFor, func() error {
		if n := made("seen"); n != 1 {
			return fmt.Errorf("the Job was created %d times", n)
		}
		return nil
	})
	s.unplace("ended")
	s.allApplied()
}

// service checks that a Service is recreated when an immutable field changes. A new Service cannot
// get the node port of the old one, so its dry run fails: the agent keeps the old Service, and
// reports the reason.
func (s *suite) service() {
	s.namespace("services")
	service := func(name, spec string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: services}\nspec: {selector: {app: web}, %s}\n", name, spec)
	}
	both := func(plain, ported string) {
		s.Helper()
		s.write(service("plain", "clusterIP: "+plain+", ports: [{port: 80}]") + "---\n" +
			service("ported", "type: NodePort, clusterIP: "+ported+", ports: [{port: 80, nodePort: 30080}]"))
	}
	both("10.0.77.1", "10.0.77.2")
	s.place("services", ", onImmutable: Recreate", "")
	for _, name := range []string{"plain", "ported"} {
		s.reports("core/services/services/"+name, "Applied", "")
	}
	plain := s.there("-n", "services", "get", "svc", "plain", "-o", "jsonpath={.metadata.uid}")
	ported := s.there("-n", "services", "get", "svc", "ported", "-o", "jsonpath={.metadata.uid}")

	both("10.0.77.3", "10.0.77.4")
	s.hasField("services", "svc/plain", ".spec.clusterIP", "10.0.77.3")
	s.reports("core/services/services/plain", "Applied", "")
	if now := s.there("-n", "services", "get", "svc", "plain", "-o", "jsonpath={.metadata.uid}"); now == plain {
		s.Error("it is the same Service")
	}
	got := s.reports("core/services/services/ported", "Failed", "Immutable")
	if !strings.Contains(got.Message, "not recreated") || !strings.Contains(got.Message, "30080") {
		s.Errorf("the message is %q", got.Message)
	}
	s.hasField("services", "svc/ported", ".metadata.uid", ported)
	s.hasField("services", "svc/ported", ".spec.clusterIP", "10.0.77.2")

	// Another port makes it possible.
	s.write(service("ported", "type: NodePort, clusterIP: 10.0.77.4, ports: [{port: 80, nodePort: 30081}]"))
	s.hasField("services", "svc/ported", ".spec.clusterIP", "10.0.77.4")
	s.reports("core/services/services/ported", "Applied", "")
	s.unplace("services")
	s.gone("services", "svc/plain")
	s.gone("services", "svc/ported")
}
