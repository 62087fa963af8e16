package write

import (
	"context"

	"orrery.dev/orrery/internal/hub/kinds"
)

// CreatePlainly creates an object without the library; made is the answer, and nil if it is left to
// the library. known is false for kinds of which all are.
func (s *Server) CreatePlainly(ctx context.Context, kind *kinds.Kind, body []byte, manager string) (made []byte, known bool) {
	r, err := s.resourceOf(kind)
	if err != nil || r.plain == nil {
		return nil, false
	}
	var d desk
	d.body.Write(body)
	made, err = r.plain.create(ctx, &d, manager)
	if err != nil {
		return nil, true
	}
	return made, true
}
