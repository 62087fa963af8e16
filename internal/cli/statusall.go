package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
)

// allStatuses is the output of `orrery status --all-spaces`.
type allStatuses struct {
	Spaces []queries.SpaceStatus `json:"spaces"`
}

// statusEntries are the objects of a SpaceStatus or of allStatuses.
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

// printSpaces requests the statuses of all spaces, one space after the other, and prints them.
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
	var all allStatuses
	for _, name := range slices.Compact(names) {
		inSpace := *h
		inSpace.space = name
		status, err := readStatus(ctx, &inSpace, query)
		if apierrors.IsNotFound(err) {
			continue // it was deleted after the list
		}
		if err != nil {
			return fmt.Errorf("space %q: %w", name, err)
		}
		all.Spaces = append(all.Spaces, status)
	}
	if s.output.structured() {
		return s.output.data(s.streams.Out, all)
	}
	return s.printSpaceStatuses(all)
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
	if err := s.output.table(s.streams.Out, s.streams.ErrOut, placements, "Placements in any space"); err != nil {
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
	return s.output.table(s.streams.Out, s.streams.ErrOut, objects, "placed objects in any space")
}

// appendRows appends the rows of a space to a table.
func appendRows(to *metav1.Table, space key.Space, from *metav1.Table) {
	for _, row := range from.Rows {
		to.Rows = append(to.Rows, metav1.TableRow{Cells: slices.Concat([]any{string(space)}, row.Cells)})
	}
}
