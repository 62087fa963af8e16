package agentapi

import (
	"net/http"
	"strconv"
	"time"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/wire"
)

// minHeartbeat is the shortest interval of pings that an agent can ask for.
const minHeartbeat = time.Second

// heartbeatFor is the interval of pings for a session: the hub's own, or a shorter one
// that its agent asks for, since something between them ends what is silent for longer.
func (a *Server) heartbeatFor(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("heartbeat")
	if text == "" {
		return a.config.Heartbeat, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 {
		return 0, respond.BadRequest("heartbeat %q: want seconds", text)
	}
	asked := time.Duration(min(seconds, int(a.config.Heartbeat/time.Second)+1)) * time.Second
	return min(a.config.Heartbeat, max(asked, minHeartbeat)), nil
}

// heartbeatSeconds is the same as the agent is told.
func (s *session) heartbeatSeconds() int { return max(1, int(s.heartbeat.Seconds())) }

// announce tells an agent that wants to know under which URLs it is to reach the hub,
// unless it has the same already.
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
