package builtin

import (
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/kinds"
)

// addFieldLabels registers the fields for field selectors in a scheme, by which handlers refuse
// other fields with BadRequest.
func addFieldLabels(scheme *runtime.Scheme) error {
	selectable := builtinSelectable()
	for _, group := range builtinTable() {
		for _, row := range group.kinds {
			gvk := group.gv.WithKind(row.kind)
			err := scheme.AddFieldLabelConversionFunc(gvk, func(label, value string) (string, string, error) {
				kind := gvk.GroupKind()
				err := kinds.CheckLabel(kind, selectable[kind], label)
				if label == "metadata.namespace" && kind == (schema.GroupKind{Kind: "Namespace"}) {
					err = kinds.UnknownLabel(kind, selectable[kind], label)
				}
				if err != nil {
					return "", "", err
				}
				return label, value, nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// builtinSelectable returns the fields for field selectors in Kubernetes.
func builtinSelectable() map[schema.GroupKind][]kinds.Selectable {
	selectable := func(paths ...string) []kinds.Selectable {
		var s []kinds.Selectable
		for _, p := range paths {
			s = append(s, kinds.Selectable{Label: p, Path: p})
		}
		return s
	}
	core := func(kind string) schema.GroupKind { return schema.GroupKind{Kind: kind} }
	return map[schema.GroupKind][]kinds.Selectable{
		core("Pod"): append(
			selectable("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
				"status.phase", "status.podIP", "status.nominatedNodeName"),
			kinds.Selectable{Label: "spec.hostNetwork", Path: "spec.hostNetwork", Absent: "false"},
			kinds.Selectable{Label: "status.podIPs", Path: "status.podIP"}),
		core("Node"):                  {{Label: "spec.unschedulable", Path: "spec.unschedulable", Absent: "false"}},
		core("ReplicationController"): {{Label: "status.replicas", Path: "status.replicas", Absent: "0"}},
		core("Namespace"):             selectable("status.phase"),
		core("Secret"):                selectable("type"),
		core("Service"):               selectable("spec.clusterIP", "spec.type"),
		core("Event"):                 eventSelectable("involvedObject", "reportingComponent"),
		{Group: eventsv1.GroupName, Kind: "Event"}:                        eventSelectable("regarding", "reportingController"),
		{Group: "batch", Kind: "Job"}:                                     {{Label: "status.successful", Path: "status.succeeded", Absent: "0"}},
		{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: selectable("spec.signerName"),
		{Group: "resource.k8s.io", Kind: "ResourceSlice"}:                 selectable("spec.nodeName", "spec.driver"),
	}
}

// eventSelectable returns an event's fields with the names of one of the two groups. Their paths are
// those of the core Event, which is stored.
func eventSelectable(object, controller string) []kinds.Selectable {
	s := []kinds.Selectable{
		{Label: "reason", Path: "reason"},
		{Label: "type", Path: "type"},
		{Label: "source", Path: "source.component", Else: "reportingComponent"},
		{Label: controller, Path: "reportingComponent"},
	}
	for _, f := range []string{"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"} {
		s = append(s, kinds.Selectable{Label: object + "." + f, Path: "involvedObject." + f})
	}
	return s
}
