package builtin

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// eventsHub is the version in which events.k8s.io handles its Event in memory.
// Its Go type is core's Event, which is what the log holds: an "internal"
// version of the group is what lets the libraries convert across groups.
var eventsHub = schema.GroupVersion{Group: eventsv1.GroupName, Version: runtime.APIVersionInternal}

// addEventConversions makes events.k8s.io a view of core's events: the two name
// the same fields differently.
func addEventConversions(scheme *runtime.Scheme) error {
	return errors.Join(
		scheme.AddConversionFunc((*eventsv1.Event)(nil), (*corev1.Event)(nil), func(in, out any, _ conversion.Scope) error {
			eventToCore(in.(*eventsv1.Event), out.(*corev1.Event))
			return nil
		}),
		scheme.AddConversionFunc((*corev1.Event)(nil), (*eventsv1.Event)(nil), func(in, out any, _ conversion.Scope) error {
			eventFromCore(in.(*corev1.Event), out.(*eventsv1.Event))
			return nil
		}),
		scheme.AddConversionFunc((*eventsv1.EventList)(nil), (*corev1.EventList)(nil), func(in, out any, _ conversion.Scope) error {
			from, to := in.(*eventsv1.EventList), out.(*corev1.EventList)
			to.ListMeta = from.ListMeta
			to.Items = make([]corev1.Event, len(from.Items))
			for i := range from.Items {
				eventToCore(&from.Items[i], &to.Items[i])
			}
			return nil
		}),
		scheme.AddConversionFunc((*corev1.EventList)(nil), (*eventsv1.EventList)(nil), func(in, out any, _ conversion.Scope) error {
			from, to := in.(*corev1.EventList), out.(*eventsv1.EventList)
			to.ListMeta = from.ListMeta
			to.Items = make([]eventsv1.Event, len(from.Items))
			for i := range from.Items {
				eventFromCore(&from.Items[i], &to.Items[i])
			}
			return nil
		}),
	)
}

func eventToCore(in *eventsv1.Event, out *corev1.Event) {
	*out = corev1.Event{
		ObjectMeta:          in.ObjectMeta,
		InvolvedObject:      in.Regarding,
		Reason:              in.Reason,
		Message:             in.Note,
		Source:              in.DeprecatedSource,
		FirstTimestamp:      in.DeprecatedFirstTimestamp,
		LastTimestamp:       in.DeprecatedLastTimestamp,
		Count:               in.DeprecatedCount,
		Type:                in.Type,
		EventTime:           in.EventTime,
		Action:              in.Action,
		Related:             in.Related,
		ReportingController: in.ReportingController,
		ReportingInstance:   in.ReportingInstance,
	}
	if in.Series != nil {
		out.Series = &corev1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
}

func eventFromCore(in *corev1.Event, out *eventsv1.Event) {
	*out = eventsv1.Event{
		ObjectMeta:               in.ObjectMeta,
		EventTime:                in.EventTime,
		ReportingController:      in.ReportingController,
		ReportingInstance:        in.ReportingInstance,
		Action:                   in.Action,
		Reason:                   in.Reason,
		Regarding:                in.InvolvedObject,
		Related:                  in.Related,
		Note:                     in.Message,
		Type:                     in.Type,
		DeprecatedSource:         in.Source,
		DeprecatedFirstTimestamp: in.FirstTimestamp,
		DeprecatedLastTimestamp:  in.LastTimestamp,
		DeprecatedCount:          in.Count,
	}
	if in.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
}
