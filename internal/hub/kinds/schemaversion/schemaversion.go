// Package schemaversion numbers the schemas of the kinds that are built into a hub, so that hubs of
// several versions on one log can find out which of them knows less.
//
// kinds.txt has, for each kind, the version at which its schema changed last, and a digest of that
// schema. It must never depend on the kinds of a space's CustomResourceDefinitions: those are in
// the log, and the same for all hubs.
package schemaversion

import (
	_ "embed"
	"fmt"
	"maps"
	"strings"
	"sync"
)

//go:embed kinds.txt
var table string

// row is a line of the table.
type row struct {
	kind, digest string
	version      int
}

// rows are those of a table: one line each, with the kind, its version and its digest. Lines that
// start with # are comments.
func rows(table string) (all []row, err error) {
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		var r row
		if _, err := fmt.Sscanf(line, "%s %d %s", &r.kind, &r.version, &r.digest); err != nil || r.version < 1 {
			return nil, fmt.Errorf("kinds.txt: %q is not a kind, a version and a digest", line)
		}
		all = append(all, r)
	}
	return all, nil
}

// first is the version of a kind that has not changed since versions were counted.
const first = 1

var built = sync.OnceValues(func() (int, map[string]int) {
	all, err := rows(table)
	if err != nil { // TestKinds has read it
		panic(err)
	}
	version, changed := first, map[string]int{}
	for _, r := range all {
		version = max(version, r.version)
		if r.version > first {
			changed[r.kind] = r.version
		}
	}
	return version, changed
})

// Version is the version of this build's schemas: the highest of all its kinds.
func Version() int {
	version, _ := built()
	return version
}

// Changed are the versions of the kinds of this build that have changed since version 1, by their
// names, such as placements.orrery.dev. The map is the caller's.
func Changed() map[string]int {
	_, changed := built()
	return maps.Clone(changed)
}
