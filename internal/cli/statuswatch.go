package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/printers"

	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// watchAgain is the delay before a client watches again.
	watchAgain = time.Second
	// maxUnmet is the maximum number of objects at locations that an error lists.
	maxUnmet = 5
)

// States that --wait can wait for.
const (
	forApplied = "applied"
	forHealthy = "healthy"
	forGone    = "gone"
)

// known is the part of a space's status that the client has received.
type known struct {
	head    queries.SpaceStatus
	objects map[string]map[key.Location]queries.PlaceStatus
	// begun are the objects received since the response began; nil after the first complete list.
	begun map[string]struct{}
}

// take processes an event, and returns the changed and removed locations of its object.
func (k *known) take(e queries.StatusEvent) (changed []queries.PlaceStatus, gone []key.Location) {
	switch {
	case e.Status != nil:
		k.head = *e.Status
	case e.Synced:
		for name := range k.objects {
			if _, ok := k.begun[name]; !ok {
				delete(k.objects, name)
			}
		}
		k.begun = nil
	}
	if e.Object == nil {
		return nil, nil
	}
	name, before := e.Object.Object, k.objects[e.Object.Object]
	if k.begun != nil {
		k.begun[name] = struct{}{}
	}
	now := map[key.Location]queries.PlaceStatus{}
	if !e.Whole {
		maps.Copy(now, before)
	}
	for _, p := range e.Object.Places {
		if p != before[p.Location] {
			changed = append(changed, p)
		}
		now[p.Location] = p
	}
	for _, l := range e.Gone {
		delete(now, l)
	}
	for l := range before {
		if _, ok := now[l]; !ok {
			gone = append(gone, l)
		}
	}
	if k.objects[name] = now; len(now) == 0 && e.Object.Generation == 0 {
		delete(k.objects, name)
	}
	slices.Sort(gone)
	return changed, gone
}

// follow calls see with each event of a space's status until see returns done, or ctx ends. After
// an interrupted response, it receives the objects again.
func (s *statusCommand) follow(ctx context.Context, h *hubClient, query url.Values, see func(*known, queries.StatusEvent) (done bool, err error)) error {
	query = maps.Clone(query)
	query.Set("watch", "true")
	k := &known{objects: map[string]map[key.Location]queries.PlaceStatus{}}
	for answered := false; ; {
		k.begun = map[string]struct{}{}
		done, err := s.once(ctx, h, query, k, see)
		switch {
		case done || ctx.Err() != nil:
			return ctx.Err()
		case err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			answered = true
		case !answered && !k.synced() || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			return err // the hub has refused the request
		}
		select {
		case <-time.After(watchAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// synced reports whether each object has been received once.
func (k *known) synced() bool { return k.begun == nil }

// once reads one response to its end.
func (s *statusCommand) once(ctx context.Context, h *hubClient, query url.Values, k *known, see func(*known, queries.StatusEvent) (bool, error)) (done bool, err error) {
	body, err := h.stream(ctx, query)
	if err != nil {
		return false, err
	}
	defer body.Close()
	lines := json.NewDecoder(body)
	for {
		var e queries.StatusEvent
		if err := lines.Decode(&e); err != nil {
			return false, fmt.Errorf("read the hub's answer: %w", err)
		}
		if done, err := see(k, e); done || err != nil {
			return true, err
		}
	}
}

// printChanges prints the present status and then its changes until ctx ends, which is not an
// error.
func (s *statusCommand) printChanges(ctx context.Context, h *hubClient, query url.Values) error {
	var failed error
	err := s.follow(ctx, h, query, func(k *known, e queries.StatusEvent) (bool, error) {
		failed = s.printEvent(k, e)
		return failed != nil, nil
	})
	if ctx.Err() != nil {
		err = nil // the user ended it
	}
	return errors.Join(failed, err)
}

func (s *statusCommand) printEvent(k *known, e queries.StatusEvent) error {
	began := k.synced()
	changed, gone := k.take(e)
	switch {
	case e.Ping:
		return nil
	case s.output.structured():
		return s.output.data(s.streams.Out, e)
	case e.Synced:
		return s.printAll(k)
	case !began:
		return nil // the list is not complete yet
	case e.Status != nil:
		s.blank()
		return s.printHead(*e.Status)
	case e.Object == nil:
		return nil
	}
	for _, l := range gone {
		changed = append(changed, queries.PlaceStatus{Location: l, State: string(wire.Removed)})
	}
	if len(changed) == 0 {
		return nil
	}
	table := objectsTable([]queries.ObjectStatus{{Object: e.Object.Object, Places: changed}}, time.Now())
	return printTable(s.streams.Out, table, printers.PrintOptions{NoHeaders: true, Wide: s.output.format == formatWide})
}

// printAll prints the received status.
func (s *statusCommand) printAll(k *known) error {
	status := k.head
	for _, name := range slices.Sorted(maps.Keys(k.objects)) {
		object := queries.ObjectStatus{Object: name}
		for _, l := range slices.Sorted(maps.Keys(k.objects[name])) {
			object.Places = append(object.Places, k.objects[name][l])
		}
		status.Objects = append(status.Objects, object)
	}
	return s.printStatus(status)
}

// waitFor waits until all objects have the requested state. It returns errNo after the timeout.
func (s *statusCommand) waitFor(ctx context.Context, h *hubClient, query url.Values) error {
	timed, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var missing []string
	var last *known
	err := s.follow(timed, h, query, func(k *known, e queries.StatusEvent) (bool, error) {
		k.take(e)
		if last = k; !k.synced() {
			return false, nil
		}
		missing = k.unmet(s.what)
		return len(missing) == 0, nil
	})
	switch {
	case s.what == forGone && s.one && apierrors.IsNotFound(err):
		return nil
	case err == nil && s.output.structured():
		return s.print(ctx, h, query)
	case err == nil:
		return s.printAll(last)
	case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
		return err
	}
	_, _ = fmt.Fprintf(s.streams.ErrOut, "not %s after %s\n", s.what, s.timeout)
	for i, one := range missing {
		if i == maxUnmet {
			_, _ = fmt.Fprintf(s.streams.ErrOut, "  and %d more\n", len(missing)-maxUnmet)
			break
		}
		_, _ = fmt.Fprintln(s.streams.ErrOut, "  "+one)
	}
	return errNo
}

// unmet returns the objects at locations that do not have the requested state, in order. Objects
// that are no longer assigned count only when waiting for removal.
func (k *known) unmet(what string) []string {
	var all []string
	some := false
	for _, name := range slices.Sorted(maps.Keys(k.objects)) {
		for _, l := range slices.Sorted(maps.Keys(k.objects[name])) {
			p := k.objects[name][l]
			some = some || !p.Unassigned
			if what != forGone && (p.Unassigned || isInState(p, what)) {
				continue
			}
			state := p.State
			if p.Health != "" && what == forHealthy {
				state += " " + string(p.Health)
			}
			if p.Stale {
				state += " (stale)"
			}
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%s at %s: %s, %s", name, l, state, oneLine(messageOf(&p))), ", "))
		}
	}
	if what != forGone && !some {
		return []string{"nothing is placed"}
	}
	return all
}

// isInState reports whether an object at a location has the requested state.
func isInState(p queries.PlaceStatus, what string) bool {
	return p.State == string(wire.Applied) && !p.Stale && (what == forApplied || p.Health == wire.Healthy)
}
