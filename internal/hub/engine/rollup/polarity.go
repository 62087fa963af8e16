package rollup

import (
	"strings"
	"unicode"
)

// badWords are words in the names of conditions for which True means a problem or an ongoing
// change.
var badWords = map[string]bool{
	"Reconciling": true, "Stalled": true,
	"Failed": true, "Failure": true, "Failures": true, "Failing": true, "Error": true, "Errors": true, "Errored": true,
	"Degraded": true, "Conflict": true, "Conflicts": true, "Conflicted": true, "Overlapping": true, "Pressure": true,
	"Unavailable": true, "Unready": true, "Unhealthy": true, "Unreachable": true, "Unknown": true, "Unschedulable": true,
	"Invalid": true, "Missing": true, "Expired": true, "Dangling": true, "Warning": true,
	"Terminating": true, "Deleting": true, "Draining": true, "Evicted": true, "Disrupted": true,
	"Paused": true, "Suspended": true, "Stopped": true, "Blocked": true, "Denied": true, "Rejected": true,
	"Pending": true, "Issuing": true, "Updating": true, "Upgrading": true, "Restarting": true, "Resizing": true,
	"Remediating": true, "Migrating": true, "Provisioning": true, "Installing": true,
}

// badByName reports whether True is bad for a type of conditions, by the words of its name. By the
// conventions of Kubernetes, it is good otherwise.
func badByName(t string) bool {
	bad, not := false, false
	for _, word := range words(t) {
		bad = bad || badWords[word]
		not = not || word == "Not" || word == "No"
	}
	return bad != not
}

// words splits a name in camel case, without its domain.
func words(t string) (all []string) {
	t = t[strings.LastIndexByte(t, '/')+1:]
	begin := 0
	for i, r := range t {
		if i > begin && unicode.IsUpper(r) {
			all = append(all, t[begin:i])
			begin = i
		}
	}
	return append(all, t[begin:])
}
