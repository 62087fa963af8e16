package read

import (
	"time"
)

// bookmarkTimer fires at an interval, shortly before the deadline of a watch, and at the deadline.
type bookmarkTimer struct {
	*time.Timer
	every    time.Duration
	deadline time.Time // zero for none
	due      bool
}

// beforeDeadline is how long before the end of a watch its last bookmark is sent.
const beforeDeadline = 2 * time.Second

func newBookmarkTimer(deadline time.Time, every time.Duration) *bookmarkTimer {
	b := &bookmarkTimer{every: every, deadline: deadline}
	b.Timer = time.NewTimer(b.next())
	return b
}

func (b *bookmarkTimer) next() time.Duration {
	if b.deadline.IsZero() {
		return b.every
	}
	left := time.Until(b.deadline)
	if left > beforeDeadline {
		left -= beforeDeadline
	}
	return min(b.every, left)
}

// passed reports whether the deadline of the watch has passed.
func (b *bookmarkTimer) passed() bool {
	return !b.deadline.IsZero() && !time.Now().Before(b.deadline)
}

// rang records that the timer fired, and restarts it.
func (b *bookmarkTimer) rang() {
	b.due = true
	b.Reset(b.next())
}

// take reports whether the timer has fired since the last call of take.
func (b *bookmarkTimer) take() bool {
	due := b.due
	b.due = false
	return due
}
