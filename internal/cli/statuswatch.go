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
	// watchAgain is how long a client waits before it asks again for what changes.
	watchAgain = time.Second
	// maxUnmet is how many places are named that do not have what was waited for.
	maxUnmet = 5
)

// What --wait can wait for.
const (
	forApplied = "applied"
	forHealthy = "healthy"
	forGone    = "gone"
)

// known is what a client knows of a space's status.
type known struct {
	head    queries.SpaceStatus
	objects map[string]map[key.Location]queries.PlaceStatus
	// begun are the objects told since the answer began, until all are.
	begun map[string]struct{}
}

// take notes an event, and says which places of its object have changed.
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

// follow calls see with each event of a space's status until see says that it is done, or
// ctx ends. What an answer that was cut off had begun is told anew.
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
			return err // the hub has refused it
		}
		select {
		case <-time.After(watchAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// synced says that everything has been told once.
func (k *known) synced() bool { return k.begun == nil }

// once reads one answer to its end.
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

// printChanges prints what there is, and then what changes, until ctx ends, which is no error.
func (s *statusCommand) printChanges(ctx context.Context, h *hubClient, query url.Values) error {
	var failed error
	err := s.follow(ctx, h, query, func(k *known, e queries.StatusEvent) (bool, error) {
		failed = s.printEvent(k, e)
		return failed != nil, nil
	})
	if ctx.Err() != nil {
		err = nil // it was left
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
		return nil // until everything is known
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
	return printers.NewTablePrinter(printers.PrintOptions{NoHeaders: true, Wide: s.output.format == formatWide}).PrintObj(table, s.streams.Out)
}

// printAll prints all that is known.
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

// waitFor waits until what is asked for is so everywhere. It returns errNo if that takes
// longer than it may.
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

// unmet are the places that do not have what is waited for, in order. What is removed from
// a location counts only for what is to be gone.
func (k *known) unmet(what string) []string {
	var all []string
	some := false
	for _, name := range slices.Sorted(maps.Keys(k.objects)) {
		for _, l := range slices.Sorted(maps.Keys(k.objects[name])) {
			p := k.objects[name][l]
			some = some || !p.Unassigned
			if what != forGone && (p.Unassigned || meets(p, what)) {
				continue
			}
			said := p.State
			if p.Health != "" && what == forHealthy {
				said += " " + string(p.Health)
			}
			if p.Stale {
				said += " (stale)"
			}
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%s at %s: %s, %s", name, l, said, oneLine(messageOf(&p))), ", "))
		}
	}
	if what != forGone && !some {
		return []string{"nothing is placed"}
	}
	return all
}

// meets says whether an object at a location has what is waited for.
func meets(p queries.PlaceStatus, what string) bool {
	return p.State == string(wire.Applied) && !p.Stale && (what == forApplied || p.Health == wire.Healthy)
}
