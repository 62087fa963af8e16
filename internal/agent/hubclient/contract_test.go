package hubclient

import (
	"fmt"
	"net/http"
	"testing"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// TestMemoryKeepsTheContract checks that the hub of the comparison tests responds like a real
// hub.
func TestMemoryKeepsTheContract(t *testing.T) {
	lacks := protocol.Before()
	for why, names := range map[string][]string{
		"a session of it ends after its hello": {
			"FromNothing", "Changes", "Causes", "Policies", "Holds", "Impersonates", "ImpersonatesNot", "Admits", "Conflicts", "Confirmed", "Resume", "ResumeRefused", "HistoryForgotten",
			"Heartbeat", "NewestWins", "Settings", "Accept", "Purge", "TokenReplaced", "LocationGone", "Restart", "Restore",
			"Lineage", "LineageOfRestored", "Status", "UnknownFields",
		},
		"it takes all that is reported":     {"Reports", "ReportsRefused", "ReportsTooLarge"},
		"it is asked only what makes sense": {"Refusals", "RefusalsOfOthers"},
		"it never requests upsync":          {"Upsync", "UpsyncYields", "UpsyncEnds", "UpsyncLimits", "Owned", "SeenWalk"},
	} {
		for _, name := range names {
			lacks[name] = why
		}
	}
	protocol.TestHub(t, lacks, func(t *testing.T, check func(*testing.T, protocol.States)) {
		check(t, memoryStates{memory: newMemory(t)})
	})
}

// memoryStates sets the desired objects of that hub.
type memoryStates struct {
	protocol.States
	memory *memory
}

func (m memoryStates) Client() *protocol.Client {
	return &protocol.Client{
		Join: wire.Join{Hub: "https://hub", Location: "paris"}, HTTP: &http.Client{Transport: protocol.Memory{Handler: m.memory}},
	}
}

func (m memoryStates) Desire(name, value string) {
	object := fmt.Appendf(nil, `{"apiVersion":"v1","data":{"k":%q},"kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"}}`, value, name)
	m.memory.put(wire.Frame{Put: &wire.Put{Key: protocol.KeyOf(name), UID: "u", Digest: wire.SumOf(object), Object: object}})
}

func (m memoryStates) Delete(name string) {
	m.memory.revision++
	delete(m.memory.content, protocol.KeyOf(name))
}
