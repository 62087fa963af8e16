package decide

import (
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

func TestHowEnded(t *testing.T) {
	jobs, pods := key.NewResource("batch", "jobs"), key.NewResource("", "pods")
	for _, c := range []struct {
		resource     key.Resource
		status, want string
	}{
		{jobs, `{"conditions":[{"type":"Complete","status":"True"}]}`, "Complete"},
		{jobs, `{"conditions":[{"type":"SuccessCriteriaMet","status":"True"}]}`, ""},
		{jobs, `{"conditions":[{"type":"Complete","status":"False"},{"type":"Failed","status":"True"}]}`, "Failed"},
		{jobs, `{"active":1}`, ""},
		{jobs, `"?"`, ""},
		{pods, `{"phase":"Running"}`, ""},
		{pods, `{"phase":"Succeeded"}`, "Succeeded"},
		{pods, `{"phase":"Failed"}`, "Failed"},
		{pods, `{"phase":"Failed","reason":"DeadlineExceeded"}`, "Failed"},
		{pods, `{"phase":"Failed","reason":"Evicted"}`, ""},
		{pods, `{"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True"}]}`, ""},
		{key.NewResource("apps", "deployments"), `{"conditions":[{"type":"Complete","status":"True"}]}`, ""},
	} {
		if got := HowEnded(c.resource, []byte(c.status)); got != c.want {
			t.Errorf("%s with %s: %q, want %q", c.resource, c.status, got, c.want)
		}
	}
}
