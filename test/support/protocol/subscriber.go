package protocol

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// subscriber is the state of a session.
type subscriber struct {
	after           int64
	mark            bool
	greeted, token  string
	mine, life, cut int
	settings        wire.Settings // as last sent
	// canUpsync is true if the agent supports upsync.
	canUpsync bool
}

func (a responder) serveDesired(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	after, err := strconv.ParseInt(cmp.Or(q.Get("after"), "0"), 10, 64)
	shard, wrong := key.ParseShard(cmp.Or(q.Get(wire.ShardParam), "1/1"))
	switch {
	case err != nil || after < 0 || wrong != nil:
		refused(http.StatusBadRequest, "after %q, shard %q", q.Get("after"), q.Get(wire.ShardParam)).write(w)
		return
	case !shard.Whole():
		refused(http.StatusConflict, "the location has one agent").write(w)
		return
	}
	a.hub.mu.Lock()
	a.hub.rules.opens(place{q.Get("marker"), after})
	canUpsync := wire.Capable(r.Header, wire.Upsyncs)
	hello := a.hello(a.hub.log.revision, place{q.Get("marker"), after}, canUpsync)
	hello.Resumed = hello.Continuous && after > 0 && after >= a.hub.log.window && !a.hub.settings.Purge
	a.hub.newest++
	s := &subscriber{
		after: hello.Revision, mark: hello.Resumed, greeted: hello.Marker, token: a.hub.token,
		mine: a.hub.newest, life: a.hub.life, cut: a.hub.cut, settings: hello.Settings, canUpsync: canUpsync,
	}
	if hello.Resumed {
		s.after = after
	}
	a.hub.rules.learn(route.Desired, []any{wire.Frame{Hello: hello}})
	close(a.hub.changed) // wakes the previous session
	a.hub.changed = make(chan struct{})
	a.hub.mu.Unlock()
	frames, bye := []any{wire.Frame{Hello: hello}}, false
	for control := http.NewResponseController(w); ; {
		_, err := w.Write(Lines(frames...))
		if errors.Join(err, control.Flush()) != nil || bye || r.Context().Err() != nil {
			return
		}
		var changed <-chan struct{}
		var ended bool
		if frames, changed, ended, bye = a.more(s); ended {
			return
		}
		if len(frames) > 0 {
			continue
		}
		ping := time.NewTimer(time.Duration(s.settings.HeartbeatSeconds) * time.Second)
		select {
		case <-changed:
		case <-ping.C:
			frames = []any{wire.Frame{Ping: &wire.Ping{}}}
		case <-r.Context().Done():
		}
		ping.Stop()
	}
}

// more returns the frames since the last call. If bye is true, the last one is a bye; if ended is true,
// the session has ended without one. changed is closed at the next change.
func (a responder) more(s *subscriber) (frames []any, changed <-chan struct{}, ended, bye bool) {
	a.hub.mu.Lock()
	defer a.hub.mu.Unlock()
	defer func() { a.hub.rules.learn(route.Desired, frames) }()
	end := func(reason string) ([]any, <-chan struct{}, bool, bool) {
		return append(frames, wire.Frame{Bye: &wire.Bye{Reason: reason}}), nil, false, true
	}
	switch {
	case s.cut != a.hub.cut:
		return nil, nil, true, false
	case a.hub.gone:
		return end(wire.ByeRemoved)
	case s.life != a.hub.life:
		return end(wire.ByeShutdown)
	case s.token != a.hub.token:
		return end(wire.ByeRevoked)
	case s.mine != a.hub.newest:
		return end(wire.ByeReplaced)
	case s.settings.Purge != a.hub.settings.Purge || s.after < a.hub.log.window:
		return end(wire.ByeExpired)
	case !s.settings.Equal(settingsFor(a.hub.settings, s.canUpsync)):
		s.settings = settingsFor(a.hub.settings, s.canUpsync)
		frames = append(frames, wire.Frame{Settings: &s.settings})
	}
	if !s.settings.Purge {
		for _, l := range a.hub.log.frames {
			if l.revision > s.after {
				frames, s.mark = append(frames, a.hub.log.delivered(frameFor(l.frame, s.canUpsync), l.revision, s.greeted)), true
			}
		}
	}
	for _, q := range a.hub.inspections.take() {
		frames = append(frames, wire.Frame{InspectRequest: &q})
	}
	s.after = a.hub.log.revision
	if s.mark {
		frames, s.mark = append(frames, wire.Frame{Mark: a.mark(a.hub.log.revision, s.canUpsync)}), false
	}
	return frames, a.hub.changed, false, false
}

// mark returns the mark of a revision, for an agent that supports upsync or does not.
func (a responder) mark(rev int64, canUpsync bool) *wire.Mark {
	m := &wire.Mark{Revision: rev, Marker: a.hub.log.marker(rev)}
	for _, f := range a.hub.content(rev) {
		_, leaf, _ := Subject(frameFor(f, canUpsync))
		m.Root, m.Count = m.Root.Add(leaf), m.Count+1
	}
	return m
}

// hello returns the first frame of a session or a comparison at a revision. known is the log position
// of the agent. canUpsync is as for mark.
func (a responder) hello(rev int64, known place, canUpsync bool) *wire.Hello {
	m := a.mark(rev, canUpsync)
	return &wire.Hello{
		UID: a.hub.uid, Marker: m.Marker, Revision: m.Revision, Root: m.Root, Count: m.Count,
		Continuous: a.hub.log.continuous(known.marker, known.revision), Settings: settingsFor(a.hub.settings, canUpsync), KeepsAggregated: true,
	}
}
