package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"orrery.dev/orrery/internal/key"
)

// AppendMarker appends a random marker: the trace of this hub start in the
// log. A log that was restored from an older copy has other markers at the
// revisions that agents remember, which is how they notice.
func (l *Log) AppendMarker(ctx context.Context, now time.Time) (marker string, rev int64, err error) {
	marker = rand.Text()
	value, err := json.Marshal(map[string]string{"started": now.UTC().Format(time.RFC3339)})
	if err != nil {
		return "", 0, fmt.Errorf("encode the hub marker: %w", err)
	}
	rev, ok, err := l.Put(ctx, key.Marker(marker), value, 0)
	if err != nil {
		return "", 0, err
	}
	if !ok {
		return "", 0, fmt.Errorf("hub marker %q exists", marker)
	}
	return marker, rev, nil
}
