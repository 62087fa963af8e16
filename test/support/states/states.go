// Package states has objects of all kinds with a Rollup, in their possible states at a location, and the
// reports of a location about them. It is used by the tests of the tools that interpret a merged status,
// which are in several modules.
//
// It must not depend on the algorithm of the merge.
package states

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"orrery.dev/orrery/internal/agent/health"
	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/protocol/key"
)

// Generation is the generation of the sources, and Live that of the objects at locations.
const (
	Generation = 4
	Live       = 9
)

// Kind is a kind with its states.
type Kind struct {
	Resource         key.Resource
	APIVersion, Kind string
	// Spec returns the spec by which a user wants n. Unless explicit is true, it omits n if n is 1.
	Spec func(n int64, explicit bool) string
	// LiveSpec returns the spec at a location that wants n, with the defaults of a cluster.
	LiveSpec func(n int64) string
	// Statuses has the possible statuses of an object that wants n at a location, by the name of the
	// state.
	Statuses map[string]func(n int64) string
	// Counts is true if the kind has a number; other kinds are tested with 1 only.
	Counts bool
	// Mute is true if the type of the status has no field that can show that a location is missing.
	Mute bool
	// Union is true if the address of one location is enough for Argo CD.
	Union bool
}

// States returns the names of the kind's states, in order.
func (k Kind) States() []string { return slices.Sorted(maps.Keys(k.Statuses)) }

// Source returns the object in a space.
func (k Kind) Source(n int64, explicit bool) []byte {
	return k.object(Generation, k.Spec(n, explicit), "")
}

// Object returns the object at a location that wants n, in a state.
func (k Kind) Object(n int64, state string) []byte { return k.With(n, k.Statuses[state](n)) }

// With returns the object at a location that wants n, with a status.
func (k Kind) With(n int64, status string) []byte { return k.object(Live, k.LiveSpec(n), status) }

func (k Kind) object(generation int64, spec, status string) []byte {
	o := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"web","namespace":"shop","uid":"u","generation":%d,`+
		`"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":%s}`, k.APIVersion, k.Kind, generation, spec)
	if status == "" {
		return o
	}
	return must(sjson.SetRawBytes(o, "status", []byte(status)))
}

// Report returns the report of a location about an object there.
func (k Kind) Report(object []byte) rollup.Report {
	o := gjson.ParseBytes(object)
	spec, status := o.Get("spec").Raw, o.Get("status").Raw
	is, _ := health.Assess(health.Object{
		APIVersion: k.APIVersion, Kind: k.Kind, Generation: o.Get("metadata.generation").Int(),
		Spec: []byte(spec), Status: []byte(status),
	})
	if field := o.Get("status.observedGeneration"); field.Exists() {
		generation := int64(Generation)
		if field.Int() < o.Get("metadata.generation").Int() {
			generation--
		}
		status = string(must(sjson.SetBytes([]byte(status), "observedGeneration", generation)))
	}
	return rollup.Report{
		Sound: true, Generation: Generation, Health: is,
		Wanted: health.Wanted(k.Resource, []byte(spec)), Status: json.RawMessage(status),
	}
}

// Decode decodes an object as tools do.
func Decode(object []byte) *unstructured.Unstructured {
	content := map[string]any{}
	if err := utiljson.Unmarshal(object, &content); err != nil {
		panic(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// Merged returns the source with the status that is merged from reports.
func (k Kind) Merged(source []byte, reports []rollup.Report) ([]byte, bool) {
	status, ok := rollup.Merge(k.Resource, source, reports)
	if !ok || status == nil {
		return source, ok
	}
	return must(sjson.SetRawBytes(slices.Clone(source), "status", status)), true
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// condition returns a condition in the form that controllers write.
func condition(t, status, reason string) string {
	return fmt.Sprintf(`{"type":%q,"status":%q,"reason":%q,"message":"about %s","lastTransitionTime":"2026-01-01T00:00:07Z"}`, t, status, reason, t)
}

func conditions(all ...string) string { return `"conditions":[` + strings.Join(all, ",") + `]` }

// number returns a field of a spec. Unless explicit is true, the field is omitted if n is 1.
func number(name string, n int64, explicit bool) string {
	if n == 1 && !explicit {
		return ""
	}
	return fmt.Sprintf(`%q:%d`, name, n)
}

func fixed(text string) func(int64) string { return func(int64) string { return text } }
