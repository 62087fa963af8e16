package write

import (
	"context"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// CreatePlainly creates an object without the library; made is the answer, and nil if it is left to
// the library. known is false for kinds of which all are.
func (s *Server) CreatePlainly(ctx context.Context, kind *kinds.Kind, body []byte, manager string) (made []byte, known bool) {
	r, err := s.resourceOf(kind)
	if err != nil || r.plain == nil {
		return nil, false
	}
	var d createBuffers
	d.body.Write(body)
	made, err = r.plain.create(ctx, &d, manager)
	if err != nil {
		return nil, true
	}
	return made, true
}

// IsDefining reports whether a request has the turn of a space's definitions, or waits for it.
func (s *Server) IsDefining(space key.Space) bool {
	s.definitions.mu.Lock()
	defer s.definitions.mu.Unlock()
	return s.definitions.bySpace[space] != nil
}
