package columns

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func serviceCells(s *corev1.Service, now time.Time) []any {
	kind := s.Spec.Type
	if kind == "" {
		kind = corev1.ServiceTypeClusterIP
	}
	ip := s.Spec.ClusterIP
	if len(s.Spec.ClusterIPs) > 0 {
		ip = s.Spec.ClusterIPs[0]
	}
	var ports []string
	for _, p := range s.Spec.Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		port := itoa(p.Port)
		if p.NodePort > 0 {
			port += ":" + itoa(p.NodePort)
		}
		ports = append(ports, port+"/"+string(protocol))
	}
	return []any{s.Name, string(kind), orNone(ip), serviceExternal(s, kind), orNone(strings.Join(ports, ",")),
		age(s.CreationTimestamp, now), labelsString(s.Spec.Selector)}
}

func serviceExternal(s *corev1.Service, kind corev1.ServiceType) string {
	switch kind {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		var addresses []string
		for _, i := range s.Status.LoadBalancer.Ingress {
			if i.IP != "" {
				addresses = append(addresses, i.IP)
			} else if i.Hostname != "" {
				addresses = append(addresses, i.Hostname)
			}
		}
		slices.Sort(addresses)
		addresses = append(slices.Compact(addresses), s.Spec.ExternalIPs...)
		if len(addresses) == 0 {
			return "<pending>"
		}
		return strings.Join(addresses, ",")
	default:
		return orNone(strings.Join(s.Spec.ExternalIPs, ","))
	}
}

// accessModes are in the short form of tables, in a fixed order.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var short []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"},
		{corev1.ReadOnlyMany, "ROX"},
		{corev1.ReadWriteMany, "RWX"},
		{corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			short = append(short, m.short)
		}
	}
	return strings.Join(short, ",")
}

func phase[S ~string](p S, m metav1.ObjectMeta) string {
	if m.DeletionTimestamp != nil {
		return "Terminating"
	}
	return string(p)
}

func volumeCells(v *corev1.PersistentVolume, now time.Time) []any {
	var claim string
	if c := v.Spec.ClaimRef; c != nil {
		claim = c.Namespace + "/" + c.Name
	}
	class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]
	if !ok {
		class = v.Spec.StorageClassName
	}
	size := v.Spec.Capacity[corev1.ResourceStorage]
	return []any{v.Name, size.String(), accessModes(v.Spec.AccessModes),
		string(cmp.Or(v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)),
		phase(cmp.Or(v.Status.Phase, corev1.VolumePending), v.ObjectMeta), claim, class, or(v.Spec.VolumeAttributesClassName, unset), v.Status.Reason,
		age(v.CreationTimestamp, now), string(or(v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem))}
}

func claimCells(c *corev1.PersistentVolumeClaim, now time.Time) []any {
	var size, modes string
	if c.Spec.VolumeName != "" {
		q := c.Status.Capacity[corev1.ResourceStorage]
		size, modes = q.String(), accessModes(c.Status.AccessModes)
	}
	class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]
	if !ok {
		class = or(c.Spec.StorageClassName, "")
	}
	return []any{c.Name, phase(cmp.Or(c.Status.Phase, corev1.ClaimPending), c.ObjectMeta), c.Spec.VolumeName, size, modes, class,
		or(c.Spec.VolumeAttributesClassName, unset), age(c.CreationTimestamp, now), string(or(c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem))}
}

// ratio is how many of how many.
func ratio[I ~int | ~int32 | ~int64](n, total I) string { return fmt.Sprintf("%d/%d", n, total) }
