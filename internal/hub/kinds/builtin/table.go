package builtin

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// trait is one thing that sets a built-in kind apart from the plainest one,
// which is namespaced and has neither status nor scale.
type trait int

const (
	cluster trait = 1 << iota
	status
	scale
	// all puts a kind into the category "all"; extension into "api-extensions".
	all
	extension
	// counted kinds have a generation that rises with every change of the spec.
	counted
	// sealed kinds change nothing of their metadata when their status is written.
	sealed

	// workload is what kinds that make pods have in common.
	workload = status | all | counted
)

// builtinGroup is the served kinds of one group version.
type builtinGroup struct {
	gv    schema.GroupVersion
	kinds []builtin
}

// builtin is one row of the table; its singular name is the kind in lower case.
type builtin struct {
	kind   string
	plural string
	traits trait
	short  []string
	// stored is where objects of the kind are kept, if it is not where they are served.
	stored schema.GroupVersion
	// hub is the version in which handlers work, if it is not the stored one.
	hub schema.GroupVersion
}

// builtinTable has every kind of Kubernetes that is generally available and whose objects
// can be stored. Those of reviews, bindings, evictions and ComponentStatus are not stored.
//
// A group's preferred version comes first.
func builtinTable() []builtinGroup {
	v1 := func(group string) schema.GroupVersion { return schema.GroupVersion{Group: group, Version: "v1"} }
	return []builtinGroup{
		{v1(""), coreKinds()},
		{v1("admissionregistration.k8s.io"), admissionKinds()},
		{v1("apiextensions.k8s.io"), []builtin{
			{kind: "CustomResourceDefinition", plural: "customresourcedefinitions", traits: cluster | extension | status | counted, short: []string{"crd", "crds"}},
		}},
		{v1("apiregistration.k8s.io"), []builtin{
			{kind: "APIService", plural: "apiservices", traits: cluster | extension | status | sealed},
		}},
		{v1("apps"), []builtin{
			{kind: "ControllerRevision", plural: "controllerrevisions"},
			{kind: "DaemonSet", plural: "daemonsets", traits: workload, short: []string{"ds"}},
			{kind: "Deployment", plural: "deployments", traits: workload | scale, short: []string{"deploy"}},
			{kind: "ReplicaSet", plural: "replicasets", traits: workload | scale, short: []string{"rs"}},
			{kind: "StatefulSet", plural: "statefulsets", traits: workload | scale, short: []string{"sts"}},
		}},
		{autoscalingv2.SchemeGroupVersion, []builtin{
			{kind: "HorizontalPodAutoscaler", plural: "horizontalpodautoscalers", traits: status | all, short: []string{"hpa"}},
		}},
		{v1("autoscaling"), []builtin{
			{kind: "HorizontalPodAutoscaler", plural: "horizontalpodautoscalers", traits: status | all, short: []string{"hpa"}, stored: autoscalingv2.SchemeGroupVersion},
		}},
		{v1("batch"), []builtin{
			{kind: "CronJob", plural: "cronjobs", traits: workload, short: []string{"cj"}},
			{kind: "Job", plural: "jobs", traits: workload},
		}},
		{v1("certificates.k8s.io"), []builtin{
			{kind: "CertificateSigningRequest", plural: "certificatesigningrequests", traits: cluster | status, short: []string{"csr"}},
		}},
		{v1("coordination.k8s.io"), []builtin{
			{kind: "Lease", plural: "leases"},
		}},
		{v1("discovery.k8s.io"), []builtin{
			{kind: "EndpointSlice", plural: "endpointslices", traits: counted},
		}},
		{v1("events.k8s.io"), []builtin{
			{kind: "Event", plural: "events", short: []string{"ev"}, stored: corev1.SchemeGroupVersion, hub: eventsHub},
		}},
		{v1("flowcontrol.apiserver.k8s.io"), []builtin{
			{kind: "FlowSchema", plural: "flowschemas", traits: cluster | status | sealed | counted},
			{kind: "PriorityLevelConfiguration", plural: "prioritylevelconfigurations", traits: cluster | status | sealed | counted},
		}},
		{v1("networking.k8s.io"), []builtin{
			{kind: "IngressClass", plural: "ingressclasses", traits: cluster | counted},
			{kind: "Ingress", plural: "ingresses", traits: status | counted, short: []string{"ing"}},
			{kind: "IPAddress", plural: "ipaddresses", traits: cluster, short: []string{"ip"}},
			{kind: "NetworkPolicy", plural: "networkpolicies", traits: counted, short: []string{"netpol"}},
			{kind: "ServiceCIDR", plural: "servicecidrs", traits: cluster | status | sealed},
		}},
		{v1("node.k8s.io"), []builtin{
			{kind: "RuntimeClass", plural: "runtimeclasses", traits: cluster},
		}},
		{v1("policy"), []builtin{
			{kind: "PodDisruptionBudget", plural: "poddisruptionbudgets", traits: status | counted, short: []string{"pdb"}},
		}},
		{v1("rbac.authorization.k8s.io"), []builtin{
			{kind: "ClusterRoleBinding", plural: "clusterrolebindings", traits: cluster},
			{kind: "ClusterRole", plural: "clusterroles", traits: cluster},
			{kind: "RoleBinding", plural: "rolebindings"},
			{kind: "Role", plural: "roles"},
		}},
		{v1("resource.k8s.io"), []builtin{
			{kind: "DeviceClass", plural: "deviceclasses", traits: cluster | counted},
			{kind: "ResourceClaim", plural: "resourceclaims", traits: status | sealed},
			{kind: "ResourceClaimTemplate", plural: "resourceclaimtemplates"},
			{kind: "ResourceSlice", plural: "resourceslices", traits: cluster | counted},
		}},
		{v1("scheduling.k8s.io"), []builtin{
			{kind: "PriorityClass", plural: "priorityclasses", traits: cluster | counted, short: []string{"pc"}},
		}},
		{v1("storage.k8s.io"), storageKinds()},
	}
}

func coreKinds() []builtin {
	return []builtin{
		{kind: "ConfigMap", plural: "configmaps", short: []string{"cm"}},
		{kind: "Endpoints", plural: "endpoints", short: []string{"ep"}},
		{kind: "Event", plural: "events", short: []string{"ev"}},
		{kind: "LimitRange", plural: "limitranges", short: []string{"limits"}},
		{kind: "Namespace", plural: "namespaces", traits: cluster | status, short: []string{"ns"}},
		{kind: "Node", plural: "nodes", traits: cluster | status, short: []string{"no"}},
		{kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims", traits: status, short: []string{"pvc"}},
		{kind: "PersistentVolume", plural: "persistentvolumes", traits: cluster | status, short: []string{"pv"}},
		{kind: "Pod", plural: "pods", traits: workload, short: []string{"po"}},
		{kind: "PodTemplate", plural: "podtemplates", traits: counted},
		{kind: "ReplicationController", plural: "replicationcontrollers", traits: workload | scale, short: []string{"rc"}},
		{kind: "ResourceQuota", plural: "resourcequotas", traits: status, short: []string{"quota"}},
		{kind: "Secret", plural: "secrets"},
		{kind: "ServiceAccount", plural: "serviceaccounts", short: []string{"sa"}},
		{kind: "Service", plural: "services", traits: status | all, short: []string{"svc"}},
	}
}

func admissionKinds() []builtin {
	return []builtin{
		{kind: "MutatingAdmissionPolicy", plural: "mutatingadmissionpolicies", traits: cluster | extension | counted},
		{kind: "MutatingAdmissionPolicyBinding", plural: "mutatingadmissionpolicybindings", traits: cluster | extension | counted},
		{kind: "MutatingWebhookConfiguration", plural: "mutatingwebhookconfigurations", traits: cluster | extension | counted},
		{kind: "ValidatingAdmissionPolicy", plural: "validatingadmissionpolicies", traits: cluster | extension | status | sealed | counted},
		{kind: "ValidatingAdmissionPolicyBinding", plural: "validatingadmissionpolicybindings", traits: cluster | extension | counted},
		{kind: "ValidatingWebhookConfiguration", plural: "validatingwebhookconfigurations", traits: cluster | extension | counted},
	}
}

func storageKinds() []builtin {
	return []builtin{
		{kind: "CSIDriver", plural: "csidrivers", traits: cluster | counted},
		{kind: "CSINode", plural: "csinodes", traits: cluster},
		{kind: "CSIStorageCapacity", plural: "csistoragecapacities"},
		{kind: "StorageClass", plural: "storageclasses", traits: cluster, short: []string{"sc"}},
		{kind: "VolumeAttachment", plural: "volumeattachments", traits: cluster | status | sealed},
		{kind: "VolumeAttributesClass", plural: "volumeattributesclasses", traits: cluster, short: []string{"vac"}},
	}
}
