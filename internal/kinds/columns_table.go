package kinds

import (
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtinPrinters has the kinds whose tables show more than name and age.
func builtinPrinters() map[schema.GroupKind]printer {
	return map[schema.GroupKind]printer{}
}

func scalePrinter() printer {
	return printed(cols("Name", "Desired#", "Available#", "Age"), func(s *autoscalingv1.Scale, now time.Time) []any {
		return []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), age(s.CreationTimestamp, now)}
	})
}
