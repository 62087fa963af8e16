package columns

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func corePrinters() map[string]printer {
	p := map[string]printer{
		"ConfigMap": printed(cols("Name", "Data", "Age"), func(c *corev1.ConfigMap, now time.Time) []any {
			return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), age(c.CreationTimestamp, now)}
		}),
		"Endpoints": printed(cols("Name", "Endpoints", "Age"), func(e *corev1.Endpoints, now time.Time) []any { //nolint:staticcheck // deprecated, but served
			return []any{e.Name, endpointsString(e), age(e.CreationTimestamp, now)}
		}),
		"Event":      printed(cols("Last Seen", "Type", "Reason", "Object", "Subobject+", "Source+", "Message", "First Seen+", "Count+", "Name+"), eventCells),
		"LimitRange": createdPrinter(),
		"Namespace": printed(cols("Name", "Status", "Age"), func(n *corev1.Namespace, now time.Time) []any {
			return []any{n.Name, string(n.Status.Phase), age(n.CreationTimestamp, now)}
		}),
		"Node": printed(cols("Name", "Status", "Roles", "Age", "Version", "Internal-IP+", "External-IP+", "OS-Image+", "Kernel-Version+", "Container-Runtime+"), nodeCells),
		"Pod":  printed(cols("Name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+", "Readiness Gates+"), podCells),
		"PodTemplate": printed(cols("Name", "Containers", "Images", "Pod Labels"), func(t *corev1.PodTemplate, _ time.Time) []any {
			names, images := containerNames(t.Template.Spec.Containers)
			return []any{t.Name, names, images, labelsString(t.Template.Labels)}
		}),
		"ReplicationController": printed(cols("Name", "Desired#", "Current#", "Ready#", "Age", "Containers+", "Images+", "Selector+"),
			func(r *corev1.ReplicationController, now time.Time) []any {
				var names, images string
				if r.Spec.Template != nil {
					names, images = containerNames(r.Spec.Template.Spec.Containers)
				}
				return []any{r.Name, int64(or(r.Spec.Replicas, 1)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas),
					age(r.CreationTimestamp, now), names, images, labelsString(r.Spec.Selector)}
			}),
		"ResourceQuota": printed(cols("Name", "Request", "Limit", "Age"), quotaCells),
		"Secret": printed(cols("Name", "Type", "Data", "Age"), func(s *corev1.Secret, now time.Time) []any {
			kind := s.Type
			if kind == "" {
				kind = corev1.SecretTypeOpaque
			}
			return []any{s.Name, string(kind), int64(len(s.Data)), age(s.CreationTimestamp, now)}
		}),
		"Service": printed(cols("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector+"), serviceCells),
	}
	p["PersistentVolume"] = printed(cols("Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass",
		"VolumeAttributesClass", "Reason", "Age", "VolumeMode+"), volumeCells)
	p["PersistentVolumeClaim"] = printed(cols("Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass",
		"VolumeAttributesClass", "Age", "VolumeMode+"), claimCells)
	for kind, scan := range map[string]func(object, to []byte, now time.Time) (scan, []byte){"ConfigMap": scanConfigMap, "Secret": scanSecret} {
		scanned := p[kind]
		scanned.scan = scan
		p[kind] = scanned
	}
	return p
}

func endpointsString(e *corev1.Endpoints) string { //nolint:staticcheck // deprecated, but served
	var list []string
	for _, s := range e.Subsets {
		for _, a := range s.Addresses {
			if len(s.Ports) == 0 {
				list = append(list, a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				list = append(list, net.JoinHostPort(a.IP, itoa(p.Port)))
			}
		}
	}
	return someOf(list, 3, ",", none)
}

func eventCells(e *corev1.Event, now time.Time) []any {
	micro := func(t metav1.MicroTime) string { return age(metav1.Time(t), now) }
	first := age(e.FirstTimestamp, now)
	if e.FirstTimestamp.IsZero() {
		first = micro(e.EventTime)
	}
	last, count := age(e.LastTimestamp, now), e.Count
	if e.LastTimestamp.IsZero() {
		last = first
	}
	if e.Series != nil {
		last, count = micro(e.Series.LastObservedTime), e.Series.Count
	} else if count == 0 {
		count = 1
	}
	object := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		object += "/" + e.InvolvedObject.Name
	}
	source := []string{e.Source.Component, e.Source.Host}
	if source[0] == "" {
		source[0] = e.ReportingController
	}
	if source[1] == "" {
		source[1] = e.ReportingInstance
	}
	source = slices.DeleteFunc(source, func(s string) bool { return s == "" })
	return []any{last, e.Type, e.Reason, object, e.InvolvedObject.FieldPath, strings.Join(source, ", "),
		strings.TrimSpace(e.Message), first, int64(count), e.Name}
}

func nodeCells(n *corev1.Node, now time.Time) []any {
	status := []string{"Unknown"}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		status[0] = "Ready"
		if c.Status != corev1.ConditionTrue {
			status[0] = "NotReady"
		}
	}
	if n.Spec.Unschedulable {
		status = append(status, "SchedulingDisabled")
	}
	var roles []string
	for k, v := range n.Labels {
		if role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if k == "kubernetes.io/role" && v != "" {
			roles = append(roles, v)
		}
	}
	slices.Sort(roles)
	address := func(kind corev1.NodeAddressType) string {
		for _, a := range n.Status.Addresses {
			if a.Type == kind {
				return a.Address
			}
		}
		return none
	}
	known := func(s string) string {
		if s == "" {
			return unknown
		}
		return s
	}
	info := n.Status.NodeInfo
	kernel := known(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{n.Name, strings.Join(status, ","), orNone(strings.Join(slices.Compact(roles), ",")), age(n.CreationTimestamp, now),
		info.KubeletVersion, address(corev1.NodeInternalIP), address(corev1.NodeExternalIP), known(info.OSImage), kernel,
		known(info.ContainerRuntimeVersion)}
}

func quotaCells(q *corev1.ResourceQuota, now time.Time) []any {
	hard := q.Status.Hard
	var names []string
	for name := range hard {
		names = append(names, string(name))
	}
	slices.Sort(names)
	var requests, limits []string
	for _, name := range names {
		used, most := q.Status.Used[corev1.ResourceName(name)], hard[corev1.ResourceName(name)]
		cell := fmt.Sprintf("%s: %s/%s", name, used.String(), most.String())
		if strings.HasPrefix(name, "limits.") {
			limits = append(limits, cell)
		} else {
			requests = append(requests, cell)
		}
	}
	return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), age(q.CreationTimestamp, now)}
}
