package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// returnWriter writes and clears returned statuses.
type returnWriter struct {
	status *statusWriter
	limits *quota.Limits
	now    func() time.Time
}

// sameStatus reports whether a row has a status that is equivalent to another as it would be
// stored. Then there is nothing to write, even if another client has written it.
func (c *returnWriter) sameStatus(row *table.Row, status json.RawMessage) (bool, error) {
	current := []byte(gjson.GetBytes(row.Value, "status").Raw)
	if sameJSON(status, current) {
		return true, nil
	}
	value, err := c.status.encode(row, row.Value, status)
	if err != nil {
		return false, err
	}
	stored := []byte(gjson.GetBytes(value, "status").Raw)
	return bytes.Equal(stored, current) || sameJSON(stored, current), nil
}

// clear removes a returned status, if there is one. Fields that other clients in the space have
// written remain.
func (c *returnWriter) clear(ctx context.Context, row *table.Row) (wrote bool, err error) {
	if !isReturned(row) {
		return false, nil
	}
	object, err := markReturned(row.Value, false, "", time.Time{})
	if err != nil {
		return false, fmt.Errorf("unmark the status of %q: %w", row.Key, err)
	}
	theirs, err := writtenHere(row.Value)
	if err != nil {
		return false, fmt.Errorf("find the fields of the status of %q that clients in the space have written: %w", row.Key, err)
	}
	err = c.status.replace(ctx, row, object, theirs)
	return err == nil, err
}

// write writes a returned status, if it fits. size is the size of the object with it.
func (c *returnWriter) write(ctx context.Context, o key.Object, row *table.Row, status json.RawMessage) (size int, wrote bool, err error) {
	object, err := markReturned(row.Value, true, c.status.apiVersion(o), c.now())
	if err != nil {
		return 0, false, fmt.Errorf("mark the status of %q: %w", row.Key, err)
	}
	value, err := c.status.encode(row, object, status)
	if err != nil {
		return 0, false, err
	}
	need := etcd.Upkeep
	if len(value) > len(row.Value) { // growth counts like that of reports
		need = etcd.Growth
		if len(value) > write.DefaultObjectBytes {
			return len(value), false, tooLarge(o.Space, len(value))
		}
	}
	done, err := c.limits.Reserve(row.Key, value, quota.BySpace) // returned statuses may use room that is reserved for others
	if err != nil {
		return len(value), false, err
	}
	rev, ok, err := c.status.put(ctx, need, row.Key, value, row.ModRev)
	if err == nil && ok {
		done(rev)
		return len(value), true, nil
	}
	done(0)
	if err == nil {
		err = errAgain
	}
	return len(value), false, err
}

// sameJSON reports whether two JSON texts are equivalent.
func sameJSON(a, b []byte) bool {
	canonical := func(text []byte) []byte {
		var v any
		if json.Unmarshal(text, &v) != nil {
			return nil
		}
		out, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		return out
	}
	x, y := canonical(a), canonical(b)
	return x != nil && bytes.Equal(x, y)
}

// misfit returns the reason why a returned status was refused; ok reports whether that is its size.
func misfit(err error) (names []string, why string, ok bool) {
	var exceeded *quota.ExceededError
	switch {
	case errors.As(err, &exceeded):
		return exceeded.Limits, exceeded.Error(), true
	case respond.NoRoom(err):
		return []string{v1alpha1.ReasonLogFull}, err.Error(), true
	}
	return nil, "", false
}

// tooLarge returns an error for an object that would exceed the size limit with its status.
func tooLarge(s key.Space, size int) error {
	return &quota.ExceededError{
		Space: s, Limits: []string{"objectBytes"},
		Text: fmt.Sprintf("requested: objectBytes=%d, limited: objectBytes=%d", size, write.DefaultObjectBytes),
	}
}
