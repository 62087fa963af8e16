package ownership

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
)

// cluster is what users of the location have set up there.
const cluster = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: theirs, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: theirs}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: theirs
  hostPath: {path: /tmp/theirs}
`

// bundle leaves to the location what a location fills in. EDIT is what an owner
// in the space changes.
const bundle = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk, namespace: filled, labels: {edit: EDIT}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: filled, labels: {edit: EDIT}}
spec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: task, namespace: filled, labels: {edit: EDIT}}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: filled, labels: {edit: EDIT}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: filled, labels: {edit: EDIT}}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "x:EDIT"}]}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: filled, labels: {edit: EDIT}}
spec:
  minReplicas: 1
  maxReplicas: 5
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: painted, namespace: filled, labels: {edit: EDIT, paint: "true"}}
data: {colour: blue, size: EDIT}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: filled, labels: {edit: EDIT}}
webhooks:
- name: hook.example.org
  clientConfig: {service: {namespace: filled, name: web}}
  rules: [{apiGroups: [none.example.org], apiVersions: [v1], operations: [CREATE], resources: [things]}]
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
`

// fill is a field that the location fills in.
type fill struct{ object, path string }

var fills = []fill{
	{"pvc/disk", ".spec.volumeName"},
	{"pvc/disk", ".spec.storageClassName"},
	{"svc/web", ".spec.clusterIP"},
	{"svc/web", ".spec.ports[0].nodePort"},
	{"job/task", ".spec.selector.matchLabels"},
	{"job/task", ".spec.template.metadata.labels"},
	{"sa/robot", ".secrets[0].name"},
	{"deploy/web", ".spec.replicas"},
	{"cm/painted", ".data.more"},
	{"cm/painted", ".data.colour"},
	{"validatingwebhookconfiguration/filled", ".webhooks[0].clientConfig.caBundle"},
}

// filled: what the location fills in is left to it, while nothing changes and
// when the object in the space is edited.
func (s *suite) filled() {
	s.namespace("filled")
	env.KubectlIn(s, s.site.Cluster.Kubeconfig, cluster+"---"+env.MutatingPolicy("paint"), "create", "-f", "-")
	s.eventually("the cluster paints", s.paints)
	s.write(strings.ReplaceAll(bundle, "EDIT", "one"))
	s.write(fmt.Sprintf(`
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: filled}
spec:
  locations: [{names: [%s]}]
  downsync: [{namespaces: [filled]}, {resources: [validatingwebhookconfigurations], names: [filled]}]
`, edge))
	s.hasField("filled", "validatingwebhookconfiguration/filled", ".metadata.labels.edit", "one")
	s.hasField("filled", "deploy/web", ".status.readyReplicas", "1")
	s.there("-n", "filled", "scale", "deploy", "web", "--replicas=3")
	s.there("-n", "filled", "patch", "sa", "robot", "--type=merge", "-p", `{"secrets":[{"name":"theirs"}]}`)
	s.there("patch", "validatingwebhookconfiguration", "filled", "--type=json", "-p",
		`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"`+s.authority()+`"}]`)
	s.hasField("filled", "pvc/disk", ".status.phase", "Bound")
	s.hasField("filled", "deploy/web", ".status.readyReplicas", "3")
	s.allApplied()
	s.quiet("")
	before := s.filledIn()
	if before[fill{"cm/painted", ".data.colour"}] != "red" || before[fill{"deploy/web", ".spec.replicas"}] != "3" {
		s.Errorf("the location has %v", before)
	}

	s.write(strings.ReplaceAll(bundle, "EDIT", "two"))
	for _, f := range fills {
		s.hasField("filled", f.object, ".metadata.labels.edit", "two")
	}
	s.hasField("filled", "deploy/web", ".spec.template.spec.containers[0].image", "x:two")
	s.hasField("filled", "deploy/web", ".status.updatedReplicas", "3")
	s.allApplied()
	s.quiet("")
	for f, old := range before {
		if now := s.filledIn()[f]; now != old {
			s.Errorf("%s of %s was %q and is %q", f.path, f.object, old, now)
		}
	}
	s.copies()
	s.unpainted()
}

// unpainted: what admission changes is reported, and becomes right by itself when the
// policy is gone. It is made anew before, since what has been painted for long is tried
// again after ten minutes only.
func (s *suite) unpainted() {
	s.Helper()
	const painted = "core/configmaps/filled/painted"
	env.Kubectl(s, s.kubeconfig, "-n", "filled", "delete", "configmap", "painted")
	s.gone("filled", "cm/painted")
	s.write(strings.ReplaceAll(bundle, "EDIT", "two"))
	if r := s.reports(painted, "Applied", "Mutated"); !strings.HasSuffix(r.Message, ": .data.colour") {
		s.Errorf("what the cluster paints is %+v", r)
	}
	if out := env.Orrery(s, s.w.Root, "why", "configmap/painted", "-n", "filled", "--space", space, "--location", edge); !strings.Contains(out, ": Mutated: admission") {
		s.Errorf("orrery why: %s", out)
	}
	s.mutated("1")
	s.there("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", "paint")
	env.Eventually(s, env.Soon, func() error {
		r, err := s.report(painted)
		if err == nil && (r.State != "Applied" || r.Reason != "") {
			err = fmt.Errorf("it is %+v", r)
		}
		return err
	})
	s.hasField("filled", "cm/painted", ".data.colour", "blue")
	s.hasField("filled", "cm/painted", ".data.more", "yes") // which is not ours
	s.mutated("0")
	s.quiet("")
}

// mutated waits until Placement and Location count so many objects that admission changes.
func (s *suite) mutated(want string) {
	s.Helper()
	s.eventually(want+" objects are counted", func() error {
		for kubeconfig, object := range map[string]string{s.kubeconfig: "placement/filled", s.w.Root: "location/" + edge} {
			got, err := env.TryKubectl(s, kubeconfig, "get", object, "-o", "jsonpath={.status.mutated}")
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("%s counts %q", object, got)
			}
		}
		return nil
	})
	out := env.Orrery(s, s.w.Root, "status", "--space", space)
	if row := regexp.MustCompile(`(?m)^filled +(\S+ +){5}` + want + ` `); !strings.Contains(out, "MUTATED") || !row.MatchString(out) {
		s.Errorf("orrery status: %s", out)
	}
}

// paints returns an error unless the cluster's admission is in force.
func (s *suite) paints() error {
	out, err := env.Command{
		Binary: "kubectl", Kubeconfig: s.site.Cluster.Kubeconfig, Args: []string{"create", "--dry-run=server", "-o", "jsonpath={.data.more}", "-f", "-"},
		Stdin: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"try","namespace":"filled","labels":{"paint":"true"}}}`,
	}.Try(s)
	if err == nil && out != "yes" {
		err = fmt.Errorf("it made %q", out)
	}
	return err
}

// authority is a certificate authority for a caBundle: that of the cluster.
func (s *suite) authority() string {
	s.Helper()
	return s.there("config", "view", "--raw", "--flatten", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}")
}

func (s *suite) filledIn() map[fill]string {
	s.Helper()
	all := map[fill]string{}
	for _, f := range fills {
		value, err := s.field("filled", f.object, f.path)
		if err != nil || value == "" {
			s.Errorf("%s of %s: %q, %v", f.path, f.object, value, err)
		}
		all[f] = value
	}
	return all
}

// copies: a controller copies the labels of a Service, the ownership label among them, to
// its EndpointSlices, which do not become the agent's by that.
func (s *suite) copies() {
	s.Helper()
	label := s.there("-n", "filled", "get", "svc", "web", "-o", `jsonpath={.metadata.labels.orrery\.dev/location}`)
	slices := s.there("-n", "filled", "get", "endpointslices", "-l", "orrery.dev/location="+label, "-o", "name")
	if slices == "" {
		s.Error("no EndpointSlice has our label")
	}
	if got := s.site.Cluster.AllRequests(s, env.Filter{User: env.AgentUser, Resource: "endpointslices", Writes: true}); len(got) > 0 {
		s.Errorf("the agent wrote EndpointSlices: %+v", got)
	}
}

const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: task, namespace: run}
spec: {ttlSecondsAfterFinished: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x:%s"}]}}}
`

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: task, namespace: run}
spec: {restartPolicy: Never, containers: [{name: c, image: x}]}
`

// made counts how often the agent has created the task of a resource.
func (s *suite) made(resource string) int {
	return len(slices.DeleteFunc(
		s.site.Cluster.Requests(s, env.Filter{User: env.AgentUser, Resource: resource, Namespace: "run", Name: "task", Writes: true}),
		func(e env.AuditEvent) bool { return e.Response.Code != 201 }))
}

// story returns the writes to the object task at the location, with their users, from the audit log.
func (s *suite) story() string {
	var b strings.Builder
	for _, e := range s.site.Cluster.Requests(s, env.Filter{Namespace: "run", Name: "task", Writes: true}) {
		fmt.Fprintf(&b, "\n%s %s %s %s by %s: %d", e.Received.Format("05.000"), e.Verb, e.Object.Resource, e.Object.Subresource, e.User.Username, e.Response.Code)
	}
	return b.String()
}

// runOnce: a Job and a Pod that ended do not run again when they are removed at the
// location, nor after the agent has lost its store; other content runs again, and so does
// what was removed before it ended.
func (s *suite) runOnce() {
	s.namespace("run")
	s.write(fmt.Sprintf(job, "one") + "---" + pod)
	s.place("run", "", "")
	s.reports("batch/jobs/run/task", "Applied", "Completed")
	s.gone("run", "job/task")

	s.hasField("run", "pod/task", ".status.phase", "Running")
	s.there("-n", "run", "delete", "pod", "task", "--grace-period=0", "--force")
	// Kwok deletes by name a Pod that was deleted by force, and so perhaps the one that
	// was made in its place: how often it is made until it ends is chance.
	last, since := "", time.Now()
	s.eventually("what did not end is made again", func() error {
		now, err := env.TryKubectl(s, s.site.Cluster.Kubeconfig, "-n", "run", "get", "pods", "--field-selector=metadata.name=task,status.phase=Running", "-o", "jsonpath={.items[*].metadata.uid}")
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if n := s.made("pods"); n < 2 || now == "" || time.Since(since) < 3*time.Second {
			return fmt.Errorf("the Pod was made %d times, %q is running", n, now)
		}
		return nil
	})
	s.there("-n", "run", "patch", "pod", "task", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Succeeded"}}`)
	s.reports("core/pods/run/task", "Applied", "Completed")
	s.there("-n", "run", "delete", "pod", "task", "--grace-period=0", "--force")
	s.gone("run", "pod/task")
	ran := s.made("pods")
	once := func() error {
		if jobs, pods := s.made("jobs"), s.made("pods"); jobs != 1 || pods != ran {
			return fmt.Errorf("the Job was made %d times, the Pod %d times: %s", jobs, pods, s.story())
		}
		return nil
	}
	env.Throughout(s, quietFor, once)
	s.site.Agent.Restart()
	s.reports("batch/jobs/run/task", "Applied", "Completed")
	env.Throughout(s, quietFor, once)
	s.loseStore()
	env.Throughout(s, quietFor, once)
	s.reports("batch/jobs/run/task", "Applied", "Completed")
	s.reports("core/pods/run/task", "Applied", "Completed")

	s.write(fmt.Sprintf(job, "two"))
	s.eventually("other content runs", func() error {
		if n := s.made("jobs"); n != 2 {
			return fmt.Errorf("the Job was made %d times", n)
		}
		return nil
	})
	s.gone("run", "job/task")
	s.reports("batch/jobs/run/task", "Applied", "Completed")
	s.unplace("run")
	s.allApplied()
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %ss.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: %ss, singular: %s, kind: %s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// inUse: a Namespace and a CRD in which users of the location have something stay, unless
// an annotation that these set at the location says otherwise. In the space it says nothing.
func (s *suite) inUse() {
	for _, name := range []string{"used", "cascaded"} {
		kind := strings.ToUpper(name[:1]) + name[1:]
		s.write("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n---" + fmt.Sprintf(definition, name, name, name, kind))
	}
	all := []string{"namespace/used", "namespace/cascaded", "crd/useds.example.org", "crd/cascadeds.example.org"}
	env.Kubectl(s, s.kubeconfig, append(append([]string{"annotate"}, all...), "orrery.dev/cascade=true")...) // which a space can't allow
	s.write(fmt.Sprintf(`
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: in-use}
spec:
  locations: [{names: [%s]}]
  downsync:
  - {resources: [namespaces], names: [used, cascaded]}
  - {resources: [customresourcedefinitions], names: [useds.example.org, cascadeds.example.org]}
`, edge))
	for _, name := range []string{"used", "cascaded"} {
		s.reports("core/namespaces/"+name, "Applied", "")
		s.eventually("there is something in it", func() error {
			kind := strings.ToUpper(name[:1]) + name[1:]
			_, err := env.Command{
				Binary: "kubectl", Kubeconfig: s.site.Cluster.Kubeconfig, Args: []string{"apply", "-f", "-"},
				Stdin: fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":%q,"metadata":{"name":"theirs","namespace":%q}}`, kind, "default"),
			}.Try(s)
			return err
		})
		s.there("-n", name, "create", "cm", "theirs")
	}
	for _, object := range all {
		s.hasField("", object, `.metadata.annotations.orrery\.dev/cascade`, "")
	}
	s.there("annotate", "namespace/cascaded", "crd/cascadeds.example.org", "orrery.dev/cascade=true")
	s.unplace("in-use")
	s.count("Orphaned", 2)
	s.gone("", "namespace/cascaded")
	s.gone("", "crd/cascadeds.example.org")
	env.Throughout(s, 2*time.Second, func() error {
		_, err := s.field("used", "cm/theirs", ".metadata.uid")
		if err == nil {
			_, err = s.field("default", "useds.example.org/theirs", ".metadata.uid")
		}
		return err
	})
	s.staysInSight()
}

// staysInSight checks that the Location counts leftovers, and that reports, the command line and the
// status of the agent show them with the reason and the remedy, until they are removed.
func (s *suite) staysInSight() {
	leftovers := func() string {
		return strings.TrimSpace(env.Kubectl(s, s.w.Root, "get", "location", edge, "-o",
			`jsonpath={.status.leftovers} {.status.conditions[?(@.type=="Synced")].message}`))
	}
	used := s.reports("core/namespaces/used", "Orphaned", "InUse")
	for _, text := range []string{"there is core/configmaps/used/theirs", "orrery.dev/cascade"} {
		if !strings.Contains(used.Message, text) {
			s.Errorf("the message of the report is %q, want %q in it", used.Message, text)
		}
	}
	s.reports("apiextensions.k8s.io/customresourcedefinitions/useds.example.org", "Orphaned", "InUse")
	s.eventually("the location counts them", func() error {
		if message := leftovers(); !strings.HasPrefix(message, "2 ") || !strings.Contains(message, "2 objects stay") {
			return fmt.Errorf("the location has leftovers and message %q", message)
		}
		return nil
	})
	env.Kubectl(s, s.kubeconfig, "delete", "namespace", "used") // its source is deleted; the object remains
	s.eventually("it stays in sight without its source", func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: s.w.Root, Args: []string{"why", "namespace/used", "--space", space, "--location", edge}}.Try(s)
		if !strings.Contains(out, "it is still at edge: Orphaned") || !strings.Contains(out, "InUse") {
			return fmt.Errorf("orrery why prints %s %w", out, err)
		}
		return nil
	})
	if out := env.Orrery(s, s.w.Root, "status", "--space", space, "--state", "Orphaned"); !strings.Contains(out, "2 objects stay at locations") || !strings.Contains(out, "namespaces/used") {
		s.Errorf("orrery status prints %s", out)
	}
	s.eventually("the status of the agent lists the leftovers", func() error {
		status, err := agent.ReadStatus(s.site.Agent.Dir)
		if err == nil && (len(status.Leftovers) != 2 || !strings.Contains(fmt.Sprint(status.Leftovers), "there is core/configmaps/used/theirs")) {
			err = fmt.Errorf("its leftovers are %v", status.Leftovers)
		}
		return err
	})
	s.there("annotate", "namespace/used", "crd/useds.example.org", "orrery.dev/cascade=true")
	s.gone("", "namespace/used")
	s.gone("", "crd/useds.example.org")
	s.eventually("the location has no leftovers", func() error {
		if message := leftovers(); !strings.HasPrefix(message, "everything assigned") {
			return fmt.Errorf("the location has leftovers and message %q", message)
		}
		return nil
	})
}
