// Package states has objects of all kinds that have a Rollup, in the states that they can
// be in at a location, and what a location reports of them. Tests of what tools make of a
// merged status, each in the module that its tool belongs to, go by the same states.
//
// It must know nothing of how a status is merged.
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

// Generation is that of the sources; Live is that of what is at locations, which differs.
const (
	Generation = 4
	Live       = 9
)

// Kind is a kind with its states.
type Kind struct {
	Resource         key.Resource
	APIVersion, Kind string
	// Spec is what a user writes who wants n; it may leave n out, if n is 1.
	Spec func(n int64, explicit bool) string
	// LiveSpec is the spec at a location that wants n, with what a cluster fills in.
	LiveSpec func(n int64) string
	// Statuses are those that an object that wants n can have at a location, by name.
	Statuses map[string]func(n int64) string
	// Counts says that the kind wants a number; others are tried with 1 only.
	Counts bool
	// Mute says that nothing in the type of the status can say that a location is not there.
	Mute bool
	// Union says that Argo CD takes the address of one location for the whole.
	Union bool
}

// States are the names of a kind's states, in order.
func (k Kind) States() []string { return slices.Sorted(maps.Keys(k.Statuses)) }

// Source is the object in a space.
func (k Kind) Source(n int64, explicit bool) []byte {
	return k.object(Generation, k.Spec(n, explicit), "")
}

// At is the object at a location that wants n, in a state.
func (k Kind) At(n int64, state string) []byte { return k.With(n, k.Statuses[state](n)) }

// With is the object at a location that wants n, with any status.
func (k Kind) With(n int64, status string) []byte { return k.object(Live, k.LiveSpec(n), status) }

func (k Kind) object(generation int64, spec, status string) []byte {
	o := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"web","namespace":"shop","uid":"u","generation":%d,`+
		`"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":%s}`, k.APIVersion, k.Kind, generation, spec)
	if status == "" {
		return o
	}
	return must(sjson.SetRawBytes(o, "status", []byte(status)))
}

// Report is what a location reports of an object there, as the agent does.
func (k Kind) Report(object []byte) rollup.Part {
	o := gjson.ParseBytes(object)
	spec, status := o.Get("spec").Raw, o.Get("status").Raw
	is, _ := health.Of(health.Object{
		APIVersion: k.APIVersion, Kind: k.Kind, Generation: o.Get("metadata.generation").Int(),
		Spec: []byte(spec), Status: []byte(status),
	})
	if said := o.Get("status.observedGeneration"); said.Exists() {
		generation := int64(Generation)
		if said.Int() < o.Get("metadata.generation").Int() {
			generation--
		}
		status = string(must(sjson.SetBytes([]byte(status), "observedGeneration", generation)))
	}
	return rollup.Part{
		Sound: true, Generation: Generation, Health: is,
		Wanted: health.Wanted(k.Resource, []byte(spec)), Status: json.RawMessage(status),
	}
}

// Decode is an object as tools decode it.
func Decode(object []byte) *unstructured.Unstructured {
	content := map[string]any{}
	if err := utiljson.Unmarshal(object, &content); err != nil {
		panic(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// Merged is the source with the status that its locations make.
func (k Kind) Merged(source []byte, parts []rollup.Part) ([]byte, bool) {
	status, ok := rollup.Merge(k.Resource, source, parts)
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

// condition is one as controllers write it.
func condition(t, status, reason string) string {
	return fmt.Sprintf(`{"type":%q,"status":%q,"reason":%q,"message":"about %s","lastTransitionTime":"2026-01-01T00:00:07Z"}`, t, status, reason, t)
}

func conditions(all ...string) string { return `"conditions":[` + strings.Join(all, ",") + `]` }

// number is a field of a spec, which a user may leave out if it is 1.
func number(name string, n int64, explicit bool) string {
	if n == 1 && !explicit {
		return ""
	}
	return fmt.Sprintf(`%q:%d`, name, n)
}

func fixed(text string) func(int64) string { return func(int64) string { return text } }
