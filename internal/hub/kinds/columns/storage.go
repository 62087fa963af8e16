package columns

import (
	"strings"
	"time"

	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func storagePrinters() map[string]printer {
	return map[string]printer{
		"CSIDriver": printed(cols("Name", "AttachRequired?", "PodInfoOnMount?", "StorageCapacity?", "TokenRequests", "RequiresRepublish?", "Modes", "Age"),
			func(d *storagev1.CSIDriver, now time.Time) []any {
				var modes, audiences []string
				for _, m := range d.Spec.VolumeLifecycleModes {
					modes = append(modes, string(m))
				}
				for _, r := range d.Spec.TokenRequests {
					audiences = append(audiences, r.Audience)
				}
				tokens := unset
				if d.Spec.TokenRequests != nil {
					tokens = strings.Join(audiences, ",")
				}
				return []any{d.Name, or(d.Spec.AttachRequired, true), or(d.Spec.PodInfoOnMount, false), or(d.Spec.StorageCapacity, false),
					tokens, or(d.Spec.RequiresRepublish, false), orNone(strings.Join(modes, ",")), age(d.CreationTimestamp, now)}
			}),
		"CSINode": printed(cols("Name", "Drivers#", "Age"), func(n *storagev1.CSINode, now time.Time) []any {
			return []any{n.Name, int64(len(n.Spec.Drivers)), age(n.CreationTimestamp, now)}
		}),
		"CSIStorageCapacity": createdPrinter(),
		"StorageClass":       printed(cols("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"), storageClassCells),
		"VolumeAttachment": printed(attachmentColumns(), func(a *storagev1.VolumeAttachment, now time.Time) []any {
			return []any{a.Name, a.Spec.Attacher, or(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached, age(a.CreationTimestamp, now)}
		}),
		"VolumeAttributesClass": printed(cols("Name", "DriverName", "Age"), func(c *storagev1.VolumeAttributesClass, now time.Time) []any {
			name := c.Name
			if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
				name += " (default)"
			}
			return []any{name, c.DriverName, age(c.CreationTimestamp, now)}
		}),
	}
}

// attachmentColumns has two of the format of a name, as Kubernetes has.
func attachmentColumns() []metav1.TableColumnDefinition {
	columns := cols("Name", "Attacher", "PV", "Node", "Attached?", "Age")
	columns[1].Format = "name"
	return columns
}

func storageClassCells(c *storagev1.StorageClass, now time.Time) []any {
	name := c.Name
	for _, a := range []string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"} {
		if c.Annotations[a] == "true" {
			name = c.Name + " (default)"
		}
	}
	reclaim, binding := "Delete", string(or(c.VolumeBindingMode, storagev1.VolumeBindingImmediate))
	if c.ReclaimPolicy != nil {
		reclaim = string(*c.ReclaimPolicy)
	}
	return []any{name, c.Provisioner, reclaim, binding, or(c.AllowVolumeExpansion, false), age(c.CreationTimestamp, now)}
}

func nodePrinters() map[string]printer {
	return map[string]printer{
		"RuntimeClass": printed(cols("Name", "Handler", "Age"), func(c *nodev1.RuntimeClass, now time.Time) []any {
			return []any{c.Name, c.Handler, age(c.CreationTimestamp, now)}
		}),
	}
}

func schedulingPrinters() map[string]printer {
	return map[string]printer{
		"PriorityClass": printed(cols("Name", "Value#", "Global-Default?", "Age", "PreemptionPolicy"), func(c *schedulingv1.PriorityClass, now time.Time) []any {
			var preemption string
			if c.PreemptionPolicy != nil {
				preemption = string(*c.PreemptionPolicy)
			}
			return []any{c.Name, int64(c.Value), c.GlobalDefault, age(c.CreationTimestamp, now), preemption}
		}),
	}
}

func resourcePrinters() map[string]printer {
	return map[string]printer{
		"ResourceClaim": printed(cols("Name", "State", "Age"), func(c *resourcev1.ResourceClaim, now time.Time) []any {
			var states []string
			if c.DeletionTimestamp != nil {
				states = append(states, "deleted")
			}
			switch {
			case c.Status.Allocation == nil && c.DeletionTimestamp == nil:
				states = append(states, "pending")
			case c.Status.Allocation != nil:
				states = append(states, "allocated")
				if len(c.Status.ReservedFor) > 0 {
					states = append(states, "reserved")
				}
			}
			return []any{c.Name, strings.Join(states, ","), age(c.CreationTimestamp, now)}
		}),
		"ResourceSlice": printed(cols("Name", "Node", "Driver", "Pool", "Age"), func(s *resourcev1.ResourceSlice, now time.Time) []any {
			return []any{s.Name, or(s.Spec.NodeName, ""), s.Spec.Driver, s.Spec.Pool.Name, age(s.CreationTimestamp, now)}
		}),
	}
}
