package view

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// credential tells a watch of a location's view that the location's token was
// replaced or taken back: whoever opened the watch has to show that they may.
type credential struct{ trigger }

// TokenRevision is the extra field of a user who showed a location's token: the
// revision at which it was the token.
const TokenRevision = "orrery.dev/token-revision"

// credential subscribes to what happens to the token since the client was
// believed, which may be a while ago: a request may wait for its revision.
func (r *reader) credential(ctx context.Context) (credential, error) {
	l, ok := r.lens.(locationLens)
	if !ok {
		return credential{}, nil
	}
	t := r.server.config.Table
	from, err := TokenRevisionOf(ctx, t.Rev())
	if err != nil {
		return credential{}, err
	}
	sub, err := t.Subscribe(from, nil, table.At(key.Enrolment(l.name)))
	return credential{trigger{sub}}, err
}

// TokenRevisionOf is the revision at which the client of a request was believed,
// or another one if it showed no token.
func TokenRevisionOf(ctx context.Context, otherwise int64) (int64, error) {
	u, ok := request.UserFrom(ctx)
	if !ok || len(u.GetExtra()[TokenRevision]) == 0 {
		return otherwise, nil
	}
	rev, err := strconv.ParseInt(u.GetExtra()[TokenRevision][0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("revision of the token: %w", err)
	}
	return rev, nil
}

// changed says that the token is another one, or may be.
func (c credential) changed() bool {
	if c.sub == nil {
		return false
	}
	steps, _, err := c.sub.Poll()
	return err != nil || len(steps) > 0
}
