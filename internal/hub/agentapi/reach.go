package agentapi

import (
	"net/http"
	"strconv"
	"time"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/wire"
)

// minHeartbeat is the shortest interval of pings that an agent can request.
const minHeartbeat = time.Second

// heartbeatFor returns the interval of pings for a session: that of the hub, or a shorter one that the
// agent requests because a proxy closes idle connections.
func (a *Server) heartbeatFor(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("heartbeat")
	if text == "" {
		return a.config.Heartbeat, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 {
		return 0, respond.BadRequest("heartbeat %q: want seconds", text)
	}
	requested := time.Duration(min(seconds, int(a.config.Heartbeat/time.Second)+1)) * time.Second
	return min(a.config.Heartbeat, max(requested, minHeartbeat)), nil
}

// heartbeatSeconds returns the interval for the settings of the agent.
func (s *session) heartbeatSeconds() int { return max(1, int(s.heartbeat.Seconds())) }

// announce sends the URLs of the hub to an agent that requests them, unless it has the same ones.
func (s *session) announce() error {
	if s.known == "" || s.server.config.Endpoints == nil {
		return nil
	}
	endpoints := s.server.config.Endpoints(s.content.location)
	digest := endpoints.Digest()
	if digest == s.known {
		return nil
	}
	s.known = digest
	return s.out.send(wire.Frame{Endpoints: &endpoints})
}
