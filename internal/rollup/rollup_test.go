package rollup_test

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/rollup"
)

var deployments = key.Resource{Group: "apps", Resource: "deployments"}

// What has no Rollup, and what is nowhere.
func TestWhatHasNone(t *testing.T) {
	configMaps := key.NewResource("", "configmaps")
	if rollup.Has(configMaps) || !rollup.Has(deployments) {
		t.Error("Has is wrong")
	}
	sound := []rollup.Part{{Location: "a", Sound: true, Status: json.RawMessage(`{"phase":"Active"}`)}}
	if status, ok := rollup.Merge(configMaps, []byte(`{}`), sound); ok {
		t.Errorf("a status without conditions is merged: %s", status)
	}
	if status, ok := rollup.Merge(deployments, []byte(`{}`), nil); status != nil || !ok {
		t.Errorf("without a location: %s, %v", status, ok)
	}
}

// A location that has less than it wants is seen in the source's measure.
func TestMeasure(t *testing.T) {
	source := []byte(`{"metadata":{"generation":2},"spec":{"replicas":3}}`)
	full := `{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3}`
	some := `{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"readyReplicas":2,"availableReplicas":2}`
	status, ok := rollup.Merge(deployments, source, []rollup.Part{
		{Location: "a", Sound: true, Generation: 2, Status: json.RawMessage(full)},
		{Location: "b", Sound: true, Generation: 2, Status: json.RawMessage(some)},
	})
	if got := gjson.GetBytes(status, "[readyReplicas,replicas,observedGeneration]").Raw; !ok || got != "" && got != "[2,3,2]" {
		t.Errorf("status: %s", status)
	}
	status, _ = rollup.Merge(deployments, source, []rollup.Part{
		{Location: "a", Sound: true, Generation: 2, Status: json.RawMessage(full)}, {Location: "b"},
	})
	if gjson.GetBytes(status, "readyReplicas").Int() != 0 || gjson.GetBytes(status, "observedGeneration").Int() != 1 {
		t.Errorf("status with an unreported location: %s", status)
	}
	t.Logf("%s", status)
}
