package write

import (
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// The functions below access fields of typed objects by the names that all Kubernetes types use.

const statusField = "Status"

// statusOf returns the status of a typed object, for reading and setting.
func statusOf(obj runtime.Object) (reflect.Value, bool) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	status := v.Elem().FieldByName(statusField)
	return status, status.IsValid()
}

func clearStatus(obj runtime.Object) {
	if status, ok := statusOf(obj); ok {
		status.SetZero()
	}
}

// copyStatus sets the status of an object to that of another, which must not be changed afterwards.
func copyStatus(to, from runtime.Object) {
	target, ok := statusOf(to)
	if source, ok2 := statusOf(from); ok && ok2 {
		target.Set(source)
	}
}

// sameContent reports whether two typed objects differ in metadata and status at most.
func sameContent(a, b runtime.Object) bool {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		if isContent(x.Type().Field(i).Name) && !apiequality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// copyContent copies all fields of a typed object but metadata and status. The source must not be
// changed afterwards.
func copyContent(to, from runtime.Object) {
	x, y := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range x.NumField() {
		if isContent(x.Type().Field(i).Name) {
			x.Field(i).Set(y.Field(i))
		}
	}
}

// isContent reports whether a field of a typed object is neither metadata nor status.
func isContent(field string) bool {
	return field != "TypeMeta" && field != "ObjectMeta" && field != statusField
}
