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

// strangers counts how often it was said that an agent is for other shards.
type strangers struct {
	nobody
	said int
}

func (s *strangers) Say(_ key.Session, p presence.Patch) {
	if p.Strange != nil {
		s.said++
	}
}

// TestStrangersAreBounded: an agent that asks again and again as one of a number of shards that
// its location does not have is refused each time, and seldom written of.
func TestStrangersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writer, heard := table.New(table.Config{WindowSteps: 10, WindowBytes: 1 << 10}), &strangers{}
		writer.Reset(1, []table.Update{{Key: key.Location("paris").Key(), Value: []byte(`{"metadata":{"name":"paris","uid":"u"},"spec":{"shards":2}}`), CreateRev: 1, ModRev: 1}})
		a := &Server{config: Config{Table: writer.Table}, sessions: NewSessions(time.Now, heard), reported: newReportLimits(fairqueue.Defaults(10), time.Now)}
		ask := func(times int) {
			t.Helper()
			for i := range times {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+wire.ShardParam+"="+[]string{"1/3", "1/4"}[i%2], http.NoBody)
				if _, err := a.shardOf(r, "paris"); !apierrors.IsConflict(err) && apierrors.ReasonForError(err) != "OtherShards" {
					t.Fatalf("it is heard: %v", err)
				}
			}
		}
		const times = 20 * statusBurst
		ask(times)
		if heard.said == 0 || heard.said > statusBurst+1 {
			t.Errorf("of %d requests at once %d are written of", times, heard.said)
		}
		before := heard.said
		<-time.After(time.Second)
		ask(times)
		if n := heard.said - before; n == 0 || n > 2*statusRate {
			t.Errorf("of as many a second later %d", n)
		}
	})
}
