package agentapi

import (
	"net/http"
	"strconv"
	"time"

	"orrery.dev/orrery/internal/hub/respond"
)

// minHeartbeat is the shortest interval of pings that an agent can request.
const minHeartbeat = time.Second

// heartbeatFor returns the interval of pings for a session: most, which is that of the hub, or a shorter one that the
// agent requests because a proxy closes idle connections.
func heartbeatFor(r *http.Request, most time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get("heartbeat")
	if text == "" {
		return most, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 {
		return 0, respond.BadRequest("heartbeat %q: want seconds", text)
	}
	requested := time.Duration(min(seconds, int(most/time.Second)+1)) * time.Second
	return min(most, max(requested, minHeartbeat)), nil
}
