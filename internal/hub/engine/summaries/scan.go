package summaries

import (
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// maxPage is how many rows a scan reads at a time.
const maxPage = 256

// scan reads the keys below prefixes a page at a time, each page in the state of that moment. The zero
// scan has none left.
type scan struct {
	prefixes []string // in order, none below another
	next     string   // where the first of them goes on; empty: at its beginning
	page     []string
}

// newScan makes a scan of prefixes, of which one may be below another.
func newScan(prefixes []string) scan {
	slices.Sort(prefixes)
	var apart []string
	for _, p := range prefixes {
		if n := len(apart); n == 0 || !strings.HasPrefix(p, apart[n-1]) {
			apart = append(apart, p)
		}
	}
	return scan{prefixes: apart}
}

// isDone reports whether all keys were taken.
func (s *scan) isDone() bool { return len(s.page) == 0 && len(s.prefixes) == 0 }

// take returns the next key of a row that is wanted, and how many rows were read for it. The key is
// empty if there was none among these rows.
func (s *scan) take(state *table.Snapshot, wanted func(*table.Row) bool) (k string, rows int) {
	if len(s.page) == 0 {
		rows = s.read(state, wanted)
	}
	if len(s.page) == 0 {
		return "", rows
	}
	k = s.page[0]
	s.page = s.page[1:]
	return k, rows
}

// read reads a page of the first prefix.
func (s *scan) read(state *table.Snapshot, wanted func(*table.Row) bool) (rows int) {
	if len(s.prefixes) == 0 {
		return 0
	}
	prefix, isMore := s.prefixes[0], false
	state.AscendFrom(max(s.next, prefix), func(row *table.Row) bool {
		if !strings.HasPrefix(row.Key, prefix) {
			return false
		}
		if rows == maxPage {
			s.next, isMore = row.Key, true
			return false
		}
		rows++
		if wanted(row) {
			s.page = append(s.page, row.Key)
		}
		return true
	})
	if !isMore {
		s.prefixes, s.next = s.prefixes[1:], ""
	}
	return rows
}
