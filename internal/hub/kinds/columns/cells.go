package columns

import (
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

const (
	none    = "<none>"
	unset   = "<unset>"
	unknown = "<unknown>"
)

// age is how long ago a time was, as tables show it.
func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

func itoa[I ~int | ~int32 | ~int64](i I) string { return strconv.FormatInt(int64(i), 10) }

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
