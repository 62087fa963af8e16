package hub

import (
	"fmt"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/key"
)

// outdated is the answer to a request that writes objects of a resource while a hub is on the log
// that knows more of it: this hub would drop the fields that it does not know. nil: there is none.
// Clients ask again, and a balancer may send them to the newer hub.
func (s *state) outdated(r key.Resource) error {
	kind := r.Resource
	if group := r.APIGroup(); group != "" {
		kind += "." + group
	}
	newer, ok := s.newer.Knowing(kind)
	if !ok {
		return nil
	}
	return respond.NotNow(fmt.Sprintf(
		"a newer hub (version %s at %s) knows fields of %s that this hub would drop: upgrade this hub, or send the request to that one", newer.Version, newer.URL, kind))
}
