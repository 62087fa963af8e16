package rollup

import (
	"strings"
	"unicode"
)

// badWords are words in the names of conditions that say something bad, or something
// that is under way, when they are True.
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

// badByName says whether a type of conditions is bad if it is True, by the words of its
// name. By the conventions of Kubernetes any other is good.
func badByName(t string) bool {
	bad, not := false, false
	for _, word := range words(t) {
		bad = bad || badWords[word]
		not = not || word == "Not" || word == "No"
	}
	return bad != not
}

// words takes apart a name in camel case, with a domain before it or without.
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
