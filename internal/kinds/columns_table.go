package kinds

import (
	"fmt"
	"maps"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The tables are those that users know from kube-apiserver. Only that server's
// own types have its printers, so the ones here are written over the API's.
// Where a user left out what Kubernetes would have defaulted, tables show the
// default: that is what it will be at a location.

const (
	none    = "<none>"
	unset   = "<unset>"
	unknown = "<unknown>"
)

// builtinPrinters has the kinds whose tables show more than name and age.
func builtinPrinters() map[schema.GroupKind]printer {
	all := map[schema.GroupKind]printer{}
	for group, kinds := range map[string]map[string]printer{
		"":                             corePrinters(),
		"admissionregistration.k8s.io": admissionPrinters(),
		"apiextensions.k8s.io":         definitionPrinters(),
		"apiregistration.k8s.io":       apiServicePrinters(),
		"apps":                         appsPrinters(),
		"autoscaling":                  autoscalingPrinters(),
		"batch":                        batchPrinters(),
		"certificates.k8s.io":          certificatePrinters(),
		"coordination.k8s.io":          coordinationPrinters(),
		"discovery.k8s.io":             discoveryPrinters(),
		"flowcontrol.apiserver.k8s.io": flowPrinters(),
		"networking.k8s.io":            networkPrinters(),
		"node.k8s.io":                  nodePrinters(),
		"policy":                       policyPrinters(),
		"rbac.authorization.k8s.io":    rbacPrinters(),
		"resource.k8s.io":              resourcePrinters(),
		"scheduling.k8s.io":            schedulingPrinters(),
		"storage.k8s.io":               storagePrinters(),
	} {
		for kind, p := range kinds {
			all[schema.GroupKind{Group: group, Kind: kind}] = p
		}
	}
	return all
}

func scalePrinter() printer {
	return printed(cols("Name", "Desired#", "Available#", "Age"), func(s *autoscalingv1.Scale, now time.Time) []any {
		return []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), age(s.CreationTimestamp, now)}
	})
}

// createdPrinter shows a time where others show an age, as Kubernetes does for
// kinds that nobody has written columns for.
func createdPrinter() printer {
	columns := cols("Name", "Created At")
	columns[1].Type = "date"
	return printer{columns: columns, cells: func(obj runtime.Object, _ time.Time) ([]any, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, fmt.Errorf("make a table row: %w", err)
		}
		return []any{m.GetName(), m.GetCreationTimestamp().UTC().Format(time.RFC3339)}, nil
	}}
}

// or is the value of a pointer, or what is meant when there is none.
func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// orNone is a string, or <none> for an empty one.
func orNone[S ~string](s S) string {
	if s == "" {
		return none
	}
	return string(s)
}

// containerNames are the names and images of containers.
func containerNames(containers []corev1.Container) (names, images string) {
	var n, i []string
	for _, c := range containers {
		n, i = append(n, c.Name), append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

// someOf joins the first few of a list and counts the others.
func someOf(list []string, most int, separator, empty string) string {
	if len(list) == 0 {
		return empty
	}
	if len(list) <= most {
		return strings.Join(list, separator)
	}
	return strings.Join(list[:most], separator) + " + " + itoa(len(list)-most) + " more..."
}

func selectorString(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }

func labelsString(l map[string]string) string { return labels.FormatLabels(maps.Clone(l)) }
