package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxNamedFailures is the number of failed spaces that an error names.
const maxNamedFailures = 5

// allStatuses is the output of `orrery status --all-spaces`.
type allStatuses struct {
	Spaces []queries.SpaceStatus `json:"spaces"`
	// Failed are the spaces whose status is missing.
	Failed []spaceFailure `json:"failed,omitempty"`
}

// statusEntries returns the functions that list and name the objects of a SpaceStatus or of allStatuses.
func statusEntries() entries {
	return entries{
		find: func(result map[string]any) []any {
			all := listIn(result, "objects")
			for _, space := range listIn(result, "spaces") {
				status, _ := space.(map[string]any)
				all = append(all, listIn(status, "objects")...)
			}
			return all
		},
		name: func(entry any) string {
			object, _ := entry.(map[string]any)
			identity, _ := object["object"].(string)
			_, name := shownAs(identity)
			return name
		},
	}
}

// spaceFailure is the reason why the status of a space is missing.
type spaceFailure struct {
	Space   string `json:"space"`
	Message string `json:"message"`
}

// printSpaces requests the statuses of all spaces and prints them. If some are missing, it prints the
// others, and then returns an error.
func (s *statusCommand) printSpaces(ctx context.Context, h *hubClient, query url.Values) error {
	var spaces v1alpha1.SpaceList
	if err := h.get(ctx, asJSON, &spaces, rootPath(key.Spaces)...); err != nil {
		return err
	}
	names := []key.Space{key.Root}
	for i := range spaces.Items {
		names = append(names, key.Space(spaces.Items[i].Name))
	}
	slices.Sort(names)
	all := readSpaces(ctx, h, query, slices.Compact(names))
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if s.output.structured() {
		err = s.output.data(s.streams.Out, all)
	} else {
		err = s.printSpaceStatuses(all)
	}
	return errors.Join(err, all.problem())
}

// readSpaces requests the statuses of spaces, one space after the other. After a request without a
// response, the others have failed, too: the hub is away, and each would wait for a timeout.
func readSpaces(ctx context.Context, h *hubClient, query url.Values, names []key.Space) (all allStatuses) {
	all.Spaces = []queries.SpaceStatus{}
	var away error
	for _, name := range names {
		if away != nil {
			all.fail(name, away)
			continue
		}
		inSpace := *h
		inSpace.space = name
		status, err := readStatus(ctx, &inSpace, query)
		switch {
		case err == nil:
			all.Spaces = append(all.Spaces, status)
		case apierrors.IsNotFound(err): // it was deleted after the list
		default:
			if errors.As(err, new(*url.Error)) {
				away = err
			}
			all.fail(name, err)
		}
	}
	return all
}

func (a *allStatuses) fail(space key.Space, err error) {
	a.Failed = append(a.Failed, spaceFailure{string(space), describe(err)})
}

// problem returns an error that names failed spaces; nil if there are none.
func (a *allStatuses) problem() error {
	if len(a.Failed) == 0 {
		return nil
	}
	var named []string
	for _, f := range a.Failed[:min(maxNamedFailures, len(a.Failed))] {
		named = append(named, fmt.Sprintf("space %q: %s", f.Space, f.Message))
	}
	if more := len(a.Failed) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("the status of %d of %d spaces could not be read: %s", len(a.Failed), len(a.Failed)+len(a.Spaces), strings.Join(named, "; "))
}

// printSpaceStatuses prints the statuses of spaces as text: tables with one more column, and below each
// the remarks on its rows.
func (s *statusCommand) printSpaceStatuses(all allStatuses) error {
	placements, objects := placementsTable(nil), objectsTable(nil, time.Time{})
	for _, status := range all.Spaces {
		appendRows(placements, status.Space, placementsTable(status.Placements))
		appendRows(objects, status.Space, objectsTable(status.Objects, time.Now()))
	}
	for _, t := range []*metav1.Table{placements, objects} {
		t.ColumnDefinitions = slices.Concat(columns("Space"), t.ColumnDefinitions)
	}
	where := " in any space"
	if len(all.Failed) > 0 {
		where = " in the spaces whose status could be read"
	}
	if err := s.output.table(s.streams.Out, s.streams.ErrOut, placements, "Placements"+where); err != nil {
		return err
	}
	for _, status := range all.Spaces {
		if err := s.printRemarks(status); err != nil {
			return err
		}
	}
	if len(placements.Rows) > 0 && len(objects.Rows) > 0 {
		s.blank()
	}
	return s.output.table(s.streams.Out, s.streams.ErrOut, objects, "placed objects"+where)
}

// appendRows appends the rows of a space to a table.
func appendRows(to *metav1.Table, space key.Space, from *metav1.Table) {
	for _, row := range from.Rows {
		to.Rows = append(to.Rows, metav1.TableRow{Cells: slices.Concat([]any{string(space)}, row.Cells)})
	}
}
