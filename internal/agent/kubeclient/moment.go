package kubeclient

import (
	"sync/atomic"
	"time"
)

// Moment is a time that is safe for concurrent use. The zero value is the zero time.
type Moment struct{ nanoseconds atomic.Int64 }

// Time returns the time that was set last.
func (m *Moment) Time() time.Time {
	if n := m.nanoseconds.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

func (m *Moment) set(t time.Time) { m.nanoseconds.Store(t.UnixNano()) }
