package summaries

import (
	"slices"
	"strings"
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// inbox keeps which keys have changed, of spaces that have Summaries only, so that its size
// is bounded by the number of keys, and so that a change costs nothing where there are none.
// It is filled while the table is locked, so filling it does nothing else.
type inbox struct {
	mu sync.Mutex
	// isActive is true from a Work until Pause. Meanwhile no changes are kept, since keys of objects that are long
	// gone would add up: all earlier knowledge is void for the next Work.
	isActive bool
	// counts has the number of Summaries of each space that has some.
	counts map[key.Space]int
	news   news
}

// news are the changes since they were taken last.
type news struct {
	// reset is true if all earlier knowledge is void.
	reset bool
	// since is when the first of them came; zero: there are none.
	since     time.Time
	spaces    map[key.Space]*ofSpace
	locations map[key.Location]struct{}
}

// ofSpace are the changes of a space.
type ofSpace struct {
	// anew is true if the space had no Summaries meanwhile, so that no change was recorded: all earlier
	// knowledge of it is void.
	anew bool
	// summaries are the names of Summaries that have changed.
	summaries map[string]struct{}
	// keys are those of objects and reports.
	keys map[string]struct{}
	// namespaces is true if labels of namespaces have changed.
	namespaces bool
}

func (n *news) inSpace(s key.Space) *ofSpace {
	if n.spaces == nil {
		n.spaces = map[key.Space]*ofSpace{}
	}
	if n.spaces[s] == nil {
		n.spaces[s] = &ofSpace{summaries: map[string]struct{}{}, keys: map[string]struct{}{}}
	}
	return n.spaces[s]
}

func (n *news) empty() bool { return !n.reset && len(n.spaces) == 0 && len(n.locations) == 0 }

// Reset forgets everything; the next Observe shows a whole state.
func (x *Index) Reset() {
	x.inbox.mu.Lock()
	defer x.inbox.mu.Unlock()
	x.inbox.counts, x.inbox.news = map[key.Space]int{}, news{reset: true}
}

// Observe records the changes of one revision.
func (x *Index) Observe(_ int64, changes []table.Change) {
	x.inbox.mu.Lock()
	defer x.inbox.mu.Unlock()
	in := &x.inbox
	for _, c := range changes {
		if in.isActive {
			in.record(c)
		} else {
			in.count(c)
		}
	}
	if in.news.empty() {
		return
	}
	if in.news.since.IsZero() {
		in.news.since = x.config.Now()
	}
	x.changed()
}

// count counts the Summaries of spaces while no changes are kept.
func (in *inbox) count(c table.Change) {
	s, r, _, ok := key.Split(c.Row().Key)
	if !ok || r != key.Summaries {
		return
	}
	if c.Prev == nil {
		in.counts[s]++
	}
	if c.Cur != nil {
		return
	}
	if in.counts[s]--; in.counts[s] <= 0 {
		delete(in.counts, s)
	}
}

func (in *inbox) record(c table.Change) {
	k := c.Row().Key
	if rest, ok := strings.CutPrefix(k, key.Reports.Prefix()); ok {
		_, rest, _ = strings.Cut(rest, "/")
		s, _, _ := strings.Cut(rest, "/")
		if in.counts[key.Space(s)] > 0 {
			in.news.inSpace(key.Space(s)).keys[k] = struct{}{}
		}
		return
	}
	s, r, name, ok := key.Split(k)
	switch {
	case !ok:
	case r == key.Summaries:
		in.news.inSpace(s).summaries[name] = struct{}{}
		if c.Prev == nil {
			in.counts[s]++
		}
		if c.Cur == nil {
			in.gone(s)
		}
	case r == key.Locations && s == key.Root:
		if len(in.counts) > 0 {
			if in.news.locations == nil {
				in.news.locations = map[key.Location]struct{}{}
			}
			in.news.locations[key.Location(name)] = struct{}{}
		}
	case in.counts[s] > 0:
		n := in.news.inSpace(s)
		n.keys[k] = struct{}{}
		n.namespaces = n.namespaces || r == key.Namespaces && !sameLabels(c)
	}
}

// gone records that a space has a Summary less. No changes are recorded of a space that has none, and
// none of locations if no space has one.
func (in *inbox) gone(s key.Space) {
	if in.counts[s]--; in.counts[s] > 0 {
		return
	}
	if delete(in.counts, s); len(in.counts) == 0 {
		in.news = news{reset: true}
		return
	}
	delete(in.news.spaces, s)
	in.news.inSpace(s).anew = true
}

func sameLabels(c table.Change) bool {
	return c.Prev != nil && c.Cur != nil && slices.Equal(c.Prev.Meta.Labels, c.Cur.Meta.Labels)
}

// take returns the changes since the last take. isFirst is true if no changes were kept: then all earlier knowledge is
// void, and the changes have the spaces with Summaries, without names.
func (in *inbox) take(now time.Time) (n news, isFirst bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if isFirst = !in.isActive; isFirst {
		in.isActive, in.news = true, news{reset: true, since: now}
		for s := range in.counts {
			in.news.inSpace(s)
		}
	}
	n = in.news
	in.news = news{}
	return n, isFirst
}

// pause ends the time in which changes are kept.
func (in *inbox) pause() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.isActive, in.news = false, news{}
}
