package wire

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// MaxReport is what a report may take in the log, in bytes.
	MaxReport = 512 << 10
	// maxReportText is what each of a report's texts may take.
	maxReportText = 4 << 10
	// maxBrief is what a report says of an error, in bytes.
	maxBrief = 1024
	// escaped is how many times as long a byte can get in JSON.
	escaped = 6
)

// Fit is the report as the log takes it: of one that is too large the status is left
// out, and the message says how large it is; its state always gets there. Agents and
// hubs do the same, and what fits stays as it is, so that both keep the same bytes.
func (r Report) Fit() Report {
	r.UID, r.Reason, r.Message = clip(r.UID), clip(r.Reason), clip(r.Message)
	r.Since, r.Completed = clip(r.Since), clip(r.Completed)
	const texts = 5 * maxReportText * escaped
	if len(r.Status)*escaped+texts <= MaxReport {
		return r
	}
	if b, err := json.Marshal(r); err != nil || len(b) <= MaxReport {
		return r // what is no JSON is refused elsewhere
	}
	r.StatusBytes, r.Status = len(r.Status), nil
	said := fmt.Sprintf("its status of %d bytes is left out: a report may have %d", r.StatusBytes, MaxReport)
	if r.Message != "" {
		said = r.Message + "; " + said
	}
	r.Message = clip(said)
	return r
}

func clip(s string) string { return Clip(s, maxReportText) }

// Brief is what a report says of an error, shortened if it is long.
func Brief(s string) string { return Clip(s, maxBrief) }

// Clip shortens a text to so many bytes.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const more = "..."
	return strings.ToValidUTF8(s[:limit-len(more)], "") + more
}
