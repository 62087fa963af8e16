package agentapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// strangers counts how often it is published that an agent is for other shards.
type strangers struct {
	unpublished
	published int
}

func (s *strangers) Say(_ key.Session, p presence.Patch) {
	if p.Strange != nil {
		s.published++
	}
}

// TestStrangersAreBounded sends many requests of an agent for a shard that its location does not have.
// Each is refused, and only few are published.
func TestStrangersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writer, strange := table.New(table.Config{WindowSteps: 10, WindowBytes: 1 << 10}), &strangers{}
		writer.Reset(1, []table.Update{{Key: key.Location("paris").Key(), Value: []byte(`{"metadata":{"name":"paris","uid":"u"},"spec":{"shards":2}}`), CreateRev: 1, ModRev: 1}})
		a := &resolver{
			locations: &locations{table: writer.Table}, sessions: NewSessions(time.Now, strange), limits: newAgentLimits(fairqueue.Defaults(10), time.Now),
		}
		request := func(times int) {
			t.Helper()
			for i := range times {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+wire.ShardParam+"="+[]string{"1/3", "1/4"}[i%2], http.NoBody)
				if _, err := a.resolve(r, "paris"); !apierrors.IsConflict(err) && apierrors.ReasonForError(err) != "OtherShards" {
					t.Fatalf("it is heard: %v", err)
				}
			}
		}
		const times = 20 * statusBurst
		request(times)
		if strange.published == 0 || strange.published > statusBurst+1 {
			t.Errorf("of %d requests at once %d are written of", times, strange.published)
		}
		before := strange.published
		<-time.After(time.Second)
		request(times)
		if n := strange.published - before; n == 0 || n > 2*statusRate {
			t.Errorf("of as many a second later %d", n)
		}
	})
}
