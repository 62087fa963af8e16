package immutable

import (
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
)

// Field lists the fields that stay as they are at the target when an immutable field stays.
type Field struct {
	// Paths are the field, and others that are valid only together with it.
	Paths []string
	// Except are fields inside of Paths that may change.
	Except []string
}

// row is an immutable field of a built-in kind, as causes name it.
type row struct {
	path  string
	field Field
}

// only is a field that stays alone.
func only(paths ...string) (rows []row) {
	for _, p := range paths {
		rows = append(rows, row{p, Field{Paths: []string{p}}})
	}
	return rows
}

// together are fields that stay together, whichever is refused.
func together(paths ...string) (rows []row) {
	for _, p := range paths {
		rows = append(rows, row{p, Field{Paths: paths}})
	}
	return rows
}

// selector is that of a workload, which its template has to match.
var selector = []row{{"spec.selector", Field{Paths: []string{"spec.selector", "spec.template.metadata.labels"}}}}

// rowsOf are the immutable fields of the built-in kinds by group and resource, as of Kubernetes 1.36.
// The field of a cause is one of them, or inside of one.
func rowsOf(r key.Resource) []row {
	switch r {
	case key.NewResource("", "configmaps"):
		return together("data", "binaryData", "immutable")
	case key.NewResource("", "secrets"):
		return together("data", "stringData", "immutable", "type")
	case key.NewResource("", "persistentvolumeclaims"), key.NewResource("", "persistentvolumes"), key.NewResource("", "pods"),
		key.NewResource("certificates.k8s.io", "certificatesigningrequests"), key.NewResource("storage.k8s.io", "volumeattachments"),
		key.NewResource("resource.k8s.io", "resourceclaims"), key.NewResource("resource.k8s.io", "resourceclaimtemplates"):
		return only("spec")
	case key.NewResource("", "services"):
		return append(together("spec.clusterIPs", "spec.clusterIP", "spec.ipFamilies", "spec.ipFamilyPolicy"),
			only("spec.loadBalancerClass", "spec.healthCheckNodePort")...)
	case key.NewResource("apps", "deployments"), key.NewResource("apps", "replicasets"), key.NewResource("apps", "daemonsets"):
		return selector
	case key.NewResource("apps", "statefulsets"):
		return []row{{"spec", Field{
			Paths: []string{"spec"}, Except: []string{"spec.replicas", "spec.template.spec", "spec.updateStrategy", "spec.minReadySeconds"},
		}}}
	case key.NewResource("apps", "controllerrevisions"):
		return only("data")
	case key.NewResource("batch", "jobs"):
		return append(together("spec.completions", "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.successPolicy"),
			only("spec.template", "spec.selector", "spec.managedBy")...)
	case key.NewResource("discovery.k8s.io", "endpointslices"):
		return []row{{"addressType", Field{Paths: []string{"addressType", "endpoints"}}}}
	default:
		return rowsOfClusterScoped(r)
	}
}

// rowsOfClusterScoped are those of kinds that configure a cluster, and of bindings.
func rowsOfClusterScoped(r key.Resource) []row {
	switch r {
	case key.CRDs:
		return append(together("spec.group", "spec.scope"), only("spec.names")...)
	case key.NewResource("rbac.authorization.k8s.io", "rolebindings"), key.NewResource("rbac.authorization.k8s.io", "clusterrolebindings"):
		return only("roleRef")
	case key.NewResource("storage.k8s.io", "storageclasses"):
		return only("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
	case key.NewResource("storage.k8s.io", "volumeattributesclasses"):
		return together("driverName", "parameters")
	case key.NewResource("storage.k8s.io", "csidrivers"):
		return only("spec.attachRequired", "spec.podInfoOnMount", "spec.volumeLifecycleModes", "spec.fsGroupPolicy")
	case key.NewResource("storage.k8s.io", "csistoragecapacities"):
		return only("nodeTopology", "storageClassName")
	case key.NewResource("scheduling.k8s.io", "priorityclasses"):
		return only("value", "preemptionPolicy")
	case key.NewResource("networking.k8s.io", "ingressclasses"):
		return only("spec.controller")
	case key.NewResource("networking.k8s.io", "ipaddresses"):
		return only("spec.parentRef")
	case key.NewResource("networking.k8s.io", "servicecidrs"):
		return only("spec.cidrs")
	case key.NewResource("node.k8s.io", "runtimeclasses"):
		return only("handler")
	default:
		return nil
	}
}

// builtin finds the immutable field of a built-in kind that a cause is about.
func builtin(r key.Resource, path string) (Field, bool) {
	for _, row := range rowsOf(r) {
		if rest, ok := strings.CutPrefix(path, row.path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return row.field, true
		}
	}
	return Field{}, false
}
