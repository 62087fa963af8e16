package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// What autoscaling/v1 has no field for, it carries in these annotations, as in Kubernetes.
const (
	metricSpecsAnnotation    = "autoscaling.alpha.kubernetes.io/metrics"
	metricStatusesAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation     = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation       = "autoscaling.alpha.kubernetes.io/behavior"
)

type (
	hpa1 = autoscalingv1.HorizontalPodAutoscaler
	hpa2 = autoscalingv2.HorizontalPodAutoscaler
)

// addAutoscalerConversions makes autoscaling/v1 a view of v2, in which
// autoscalers are stored. As in Kubernetes, v1 has room for one CPU utilization
// target; if there are several, the first one survives a write through v1.
func addAutoscalerConversions(scheme *runtime.Scheme) error {
	return errors.Join(
		scheme.AddConversionFunc((*hpa1)(nil), (*hpa2)(nil), func(in, out any, _ conversion.Scope) error {
			return autoscalerToV2(in.(*hpa1), out.(*hpa2))
		}),
		scheme.AddConversionFunc((*hpa2)(nil), (*hpa1)(nil), func(in, out any, _ conversion.Scope) error {
			return autoscalerToV1(in.(*hpa2), out.(*hpa1))
		}),
		scheme.AddConversionFunc((*autoscalingv1.HorizontalPodAutoscalerList)(nil), (*autoscalingv2.HorizontalPodAutoscalerList)(nil),
			func(in, out any, _ conversion.Scope) error {
				from, to := in.(*autoscalingv1.HorizontalPodAutoscalerList), out.(*autoscalingv2.HorizontalPodAutoscalerList)
				to.ListMeta, to.Items = from.ListMeta, make([]hpa2, len(from.Items))
				for i := range from.Items {
					if err := autoscalerToV2(&from.Items[i], &to.Items[i]); err != nil {
						return err
					}
				}
				return nil
			}),
		scheme.AddConversionFunc((*autoscalingv2.HorizontalPodAutoscalerList)(nil), (*autoscalingv1.HorizontalPodAutoscalerList)(nil),
			func(in, out any, _ conversion.Scope) error {
				from, to := in.(*autoscalingv2.HorizontalPodAutoscalerList), out.(*autoscalingv1.HorizontalPodAutoscalerList)
				to.ListMeta, to.Items = from.ListMeta, make([]hpa1, len(from.Items))
				for i := range from.Items {
					if err := autoscalerToV1(&from.Items[i], &to.Items[i]); err != nil {
						return err
					}
				}
				return nil
			}),
	)
}

// isCPUTarget reports whether a metric is the only one for which v1 has a field.
func isCPUTarget(m autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil &&
		m.Resource.Name == corev1.ResourceCPU && m.Resource.Target.AverageUtilization != nil
}

func autoscalerToV1(in *hpa2, out *hpa1) error {
	*out = hpa1{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	var others []autoscalingv1.MetricSpec
	for _, m := range in.Spec.Metrics {
		if !isCPUTarget(m) {
			others = append(others, metricToV1(m))
		} else if out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
		}
	}
	var current []autoscalingv1.MetricStatus
	for _, m := range in.Status.CurrentMetrics {
		if m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
		current = append(current, metricStatusToV1(m))
	}
	annotations := withoutV1Annotations(in.Annotations)
	for name, v := range map[string]struct {
		value any
		keep  bool
	}{
		metricSpecsAnnotation:    {others, len(others) > 0},
		metricStatusesAnnotation: {current, len(current) > 0},
		conditionsAnnotation:     {in.Status.Conditions, len(in.Status.Conditions) > 0},
		behaviorAnnotation:       {in.Spec.Behavior, in.Spec.Behavior != nil},
	} {
		if !v.keep {
			continue
		}
		b, err := json.Marshal(v.value)
		if err != nil {
			return fmt.Errorf("convert autoscaler %q: annotation %q: %w", in.Name, name, err)
		}
		annotations[name] = string(b)
	}
	if len(annotations) > 0 || in.Annotations != nil {
		out.Annotations = annotations
	}
	return nil
}

func autoscalerToV2(in *hpa1, out *hpa2) error {
	*out = hpa2{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	// An annotation that can't be read is ignored, as Kubernetes does: it can only
	// come from a client that made it up.
	var others []autoscalingv1.MetricSpec
	if readAnnotation(in.Annotations, metricSpecsAnnotation, &others) {
		for _, m := range others {
			out.Spec.Metrics = append(out.Spec.Metrics, metricToV2(m))
		}
	}
	if percent := in.Spec.TargetCPUUtilizationPercentage; percent != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: percent},
			},
		})
	}
	var current []autoscalingv1.MetricStatus
	if readAnnotation(in.Annotations, metricStatusesAnnotation, &current) {
		for _, m := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, metricStatusToV2(m))
		}
	} else if percent := in.Status.CurrentCPUUtilizationPercentage; percent != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name:    corev1.ResourceCPU,
				Current: autoscalingv2.MetricValueStatus{AverageUtilization: percent},
			},
		}}
	}
	var behavior autoscalingv2.HorizontalPodAutoscalerBehavior
	if readAnnotation(in.Annotations, behaviorAnnotation, &behavior) {
		out.Spec.Behavior = &behavior
	}
	readAnnotation(in.Annotations, conditionsAnnotation, &out.Status.Conditions)
	if out.Annotations != nil {
		out.Annotations = withoutV1Annotations(in.Annotations)
	}
	return nil
}

func readAnnotation(annotations map[string]string, name string, into any) bool {
	value, ok := annotations[name]
	return ok && json.Unmarshal([]byte(value), into) == nil
}

// withoutV1Annotations is a copy without what only v1 carries.
func withoutV1Annotations(annotations map[string]string) map[string]string {
	c := maps.Clone(annotations)
	if c == nil {
		c = map[string]string{}
	}
	maps.DeleteFunc(c, func(name, _ string) bool {
		return slices.Contains([]string{metricSpecsAnnotation, metricStatusesAnnotation, conditionsAnnotation, behaviorAnnotation}, name)
	})
	return c
}
