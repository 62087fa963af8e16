package builtin

import (
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/kinds"
)

// addFieldLabels tells a scheme which fields selectors may name; handlers ask
// it and answer BadRequest to others.
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

// builtinSelectable has the fields that Kubernetes lets clients select by.
func builtinSelectable() map[schema.GroupKind][]kinds.Selectable {
	at := func(paths ...string) []kinds.Selectable {
		var s []kinds.Selectable
		for _, p := range paths {
			s = append(s, kinds.Selectable{Label: p, Path: p})
		}
		return s
	}
	core := func(kind string) schema.GroupKind { return schema.GroupKind{Kind: kind} }
	return map[schema.GroupKind][]kinds.Selectable{
		core("Pod"): append(
			at("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
				"status.phase", "status.podIP", "status.nominatedNodeName"),
			kinds.Selectable{Label: "spec.hostNetwork", Path: "spec.hostNetwork", Absent: "false"},
			kinds.Selectable{Label: "status.podIPs", Path: "status.podIP"}),
		core("Node"):                  {{Label: "spec.unschedulable", Path: "spec.unschedulable", Absent: "false"}},
		core("ReplicationController"): {{Label: "status.replicas", Path: "status.replicas", Absent: "0"}},
		core("Namespace"):             at("status.phase"),
		core("Secret"):                at("type"),
		core("Service"):               at("spec.clusterIP", "spec.type"),
		core("Event"):                 eventSelectable("involvedObject", "reportingComponent"),
		{Group: eventsv1.GroupName, Kind: "Event"}:                        eventSelectable("regarding", "reportingController"),
		{Group: "batch", Kind: "Job"}:                                     {{Label: "status.successful", Path: "status.succeeded", Absent: "0"}},
		{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: at("spec.signerName"),
		{Group: "resource.k8s.io", Kind: "ResourceSlice"}:                 at("spec.nodeName", "spec.driver"),
	}
}

// eventSelectable names an event's fields as one of the two groups does; their
// places are those of core's Event, which is what is stored.
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
