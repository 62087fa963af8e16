package columns

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
)

func appsPrinters() map[string]printer {
	return map[string]printer{
		"ControllerRevision": printed(cols("Name", "Controller", "Revision", "Age"), func(r *appsv1.ControllerRevision, now time.Time) []any {
			controller := none
			if c := metav1.GetControllerOf(r); c != nil {
				gk := schema.FromAPIVersionAndKind(c.APIVersion, c.Kind).GroupKind()
				controller = strings.ToLower(gk.String()) + "/" + c.Name
			}
			return []any{r.Name, controller, r.Revision, age(r.CreationTimestamp, now)}
		}),
		"DaemonSet": printed(cols("Name", "Desired#", "Current#", "Ready#", "Up-to-date#", "Available#", "Node Selector", "Age",
			"Containers+", "Images+", "Selector+"), func(d *appsv1.DaemonSet, now time.Time) []any {
			names, images := containerNames(d.Spec.Template.Spec.Containers)
			s := d.Status
			return []any{d.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
				int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable), labelsString(d.Spec.Template.Spec.NodeSelector),
				age(d.CreationTimestamp, now), names, images, selectorString(d.Spec.Selector)}
		}),
		"Deployment": printed(cols("Name", "Ready", "Up-to-date", "Available", "Age", "Containers+", "Images+", "Selector+"),
			func(d *appsv1.Deployment, now time.Time) []any {
				names, images := containerNames(d.Spec.Template.Spec.Containers)
				return []any{d.Name, ratio(d.Status.ReadyReplicas, or(d.Spec.Replicas, 1)), int64(d.Status.UpdatedReplicas),
					int64(d.Status.AvailableReplicas), age(d.CreationTimestamp, now), names, images, selectorString(d.Spec.Selector)}
			}),
		"ReplicaSet": printed(cols("Name", "Desired#", "Current#", "Ready#", "Age", "Containers+", "Images+", "Selector+"),
			func(r *appsv1.ReplicaSet, now time.Time) []any {
				names, images := containerNames(r.Spec.Template.Spec.Containers)
				return []any{r.Name, int64(or(r.Spec.Replicas, 1)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas),
					age(r.CreationTimestamp, now), names, images, selectorString(r.Spec.Selector)}
			}),
		"StatefulSet": printed(cols("Name", "Ready", "Age", "Containers+", "Images+"), func(s *appsv1.StatefulSet, now time.Time) []any {
			names, images := containerNames(s.Spec.Template.Spec.Containers)
			return []any{s.Name, ratio(s.Status.ReadyReplicas, or(s.Spec.Replicas, 1)), age(s.CreationTimestamp, now), names, images}
		}),
	}
}

func batchPrinters() map[string]printer {
	return map[string]printer{
		"CronJob": printed(cols("Name", "Schedule", "Timezone", "Suspend?", "Active#", "Last Schedule", "Age",
			"Containers+", "Images+", "Selector+"), func(c *batchv1.CronJob, now time.Time) []any {
			last := none
			if c.Status.LastScheduleTime != nil {
				last = age(*c.Status.LastScheduleTime, now)
			}
			job := c.Spec.JobTemplate.Spec
			names, images := containerNames(job.Template.Spec.Containers)
			return []any{c.Name, c.Spec.Schedule, or(c.Spec.TimeZone, none), suspended(c.Spec.Suspend), int64(len(c.Status.Active)),
				last, age(c.CreationTimestamp, now), names, images, selectorString(job.Selector)}
		}),
		"Job": printed(cols("Name", "Status", "Completions", "Duration", "Age", "Containers+", "Images+", "Selector+"), jobCells),
	}
}

// suspended is a boolean in words, as the column has it in spite of its type.
func suspended(s *bool) string {
	if or(s, false) {
		return "True"
	}
	return "False"
}

func jobCells(j *batchv1.Job, now time.Time) []any {
	completions := ratio(j.Status.Succeeded, 1)
	if j.Spec.Completions != nil {
		completions = ratio(j.Status.Succeeded, *j.Spec.Completions)
	} else if parallel := or(j.Spec.Parallelism, 1); parallel > 1 {
		completions = fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, parallel)
	}
	var took string
	if start := j.Status.StartTime; start != nil {
		end := now
		if j.Status.CompletionTime != nil {
			end = j.Status.CompletionTime.Time
		}
		took = duration.HumanDuration(end.Sub(start.Time))
	}
	names, images := containerNames(j.Spec.Template.Spec.Containers)
	return []any{j.Name, jobStatus(j), completions, took, age(j.CreationTimestamp, now), names, images, selectorString(j.Spec.Selector)}
}

func jobStatus(j *batchv1.Job) string {
	is := map[batchv1.JobConditionType]bool{}
	for _, c := range j.Status.Conditions {
		is[c.Type] = c.Status == corev1.ConditionTrue
	}
	switch {
	case is[batchv1.JobComplete]:
		return "Complete"
	case is[batchv1.JobFailed]:
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case is[batchv1.JobSuspended]:
		return "Suspended"
	case is[batchv1.JobFailureTarget]:
		return "FailureTarget"
	case is[batchv1.JobSuccessCriteriaMet]:
		return "SuccessCriteriaMet"
	default:
		return "Running"
	}
}

func autoscalingPrinters() map[string]printer {
	return map[string]printer{
		"HorizontalPodAutoscaler": printed(cols("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"),
			func(h *autoscalingv2.HorizontalPodAutoscaler, now time.Time) []any {
				metrics := h.Spec.Metrics
				if len(metrics) == 0 {
					metrics = usualMetrics()
				}
				var targets []string
				for i, m := range metrics {
					var current autoscalingv2.MetricStatus
					if i < len(h.Status.CurrentMetrics) {
						current = h.Status.CurrentMetrics[i]
					}
					targets = append(targets, metricCell(m, current))
				}
				return []any{h.Name, h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name, someOf(targets, 2, ", ", none),
					itoa(or(h.Spec.MinReplicas, 1)), int64(h.Spec.MaxReplicas), int64(h.Status.CurrentReplicas), age(h.CreationTimestamp, now)}
			}),
	}
}

// usualMetrics are those of an autoscaler that names none.
func usualMetrics() []autoscalingv2.MetricSpec {
	percent := int32(80)
	return []autoscalingv2.MetricSpec{{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		},
	}}
}

// metricCell is current/target of one metric. A status of another kind than
// the metric is none of its.
func metricCell(m autoscalingv2.MetricSpec, s autoscalingv2.MetricStatus) string {
	var current autoscalingv2.MetricValueStatus
	switch {
	case m.External != nil:
		if s.External != nil {
			current = s.External.Current
		}
		return valueCell(m.External.Target, current, " (avg)")
	case m.Object != nil:
		if s.Object != nil {
			current = s.Object.Current
		}
		return valueCell(m.Object.Target, current, " (avg)")
	case m.Pods != nil:
		if s.Pods != nil {
			current = s.Pods.Current
		}
		return valueCell(m.Pods.Target, current, "")
	case m.Resource != nil:
		if s.Resource != nil {
			current = s.Resource.Current
		}
		return string(m.Resource.Name) + ": " + valueCell(m.Resource.Target, current, "")
	case m.ContainerResource != nil:
		if s.ContainerResource != nil {
			current = s.ContainerResource.Current
		}
		return string(m.ContainerResource.Name) + ": " + valueCell(m.ContainerResource.Target, current, "")
	default:
		return "<unknown type>"
	}
}

func valueCell(target autoscalingv2.MetricTarget, current autoscalingv2.MetricValueStatus, average string) string {
	quantity := func(q *resource.Quantity) string {
		if q == nil {
			return unknown
		}
		return q.String()
	}
	percent := func(p *int32, otherwise string) string {
		if p == nil {
			return otherwise
		}
		return itoa(*p) + "%"
	}
	switch {
	case target.AverageValue != nil:
		return quantity(current.AverageValue) + "/" + target.AverageValue.String() + average
	case target.Value != nil:
		return quantity(current.Value) + "/" + target.Value.String()
	default:
		return percent(current.AverageUtilization, unknown) + "/" + percent(target.AverageUtilization, "<auto>")
	}
}
