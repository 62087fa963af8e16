package upsync

import "orrery.dev/orrery/internal/protocol/wire"

// The limits if the hub sends none.
const (
	defaultObjects = 10_000
	defaultBytes   = 64 << 20
)

// usage is a number of objects and of bytes.
type usage struct {
	objects int
	bytes   int64
}

// limits bound the reports of upsynced objects.
type limits usage

func limitsOf(s wire.Settings) limits {
	l := limits{s.UpsyncObjects, s.UpsyncBytes}
	if l.objects == 0 {
		l.objects = defaultObjects
	}
	if l.bytes == 0 {
		l.bytes = defaultBytes
	}
	return l
}

// budget has the limits of the reports of upsynced objects, and the reports in the store.
type budget struct {
	limits limits
	used   usage
	// freed is true if there may be room for a report for which there was none.
	freed bool
}

// fits reports whether there is room for another report of a size.
func (b *budget) fits(size int) bool {
	return b.used.objects < b.limits.objects && b.used.bytes+int64(size) <= b.limits.bytes
}

// isExceeded reports whether there are more reports than the limits allow.
func (b *budget) isExceeded() bool {
	return b.used.objects > b.limits.objects || b.used.bytes > b.limits.bytes
}

// add counts a report.
func (b *budget) add(size int) {
	b.used.objects++
	b.used.bytes += int64(size)
}

// subtract ends the count of a report.
func (b *budget) subtract(size int) {
	b.used.objects--
	b.used.bytes -= int64(size)
}

// release ends the count of a report, and notes that there is more room.
func (b *budget) release(size int) {
	b.subtract(size)
	b.freed = true
}
