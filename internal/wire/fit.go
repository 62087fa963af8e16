package wire

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// MaxReport is how many bytes a report may take in the log.
	MaxReport = 512 << 10
	// maxReportText is how many bytes each of a report's texts may take.
	maxReportText = 4 << 10
	// maxBrief is how many bytes a report quotes of an error.
	maxBrief = 1024
	// escaped is how many bytes one byte can take in JSON.
	escaped = 6
)

// Fit is the report as the log takes it: if it is too large, the status is left out and
// the message says how large it is, so that at least the state arrives. Agents and hubs
// both apply it, and a report that fits is unchanged, so both keep the same bytes.
func (r Report) Fit() Report {
	r.UID, r.Reason, r.Message = clip(r.UID), clip(r.Reason), clip(r.Message)
	r.Since, r.Completed = clip(r.Since), clip(r.Completed)
	const texts = 5 * maxReportText * escaped
	if len(r.Status)*escaped+texts <= MaxReport {
		return r
	}
	if b, err := json.Marshal(r); err != nil || len(b) <= MaxReport {
		return r // a status that is not JSON is refused elsewhere
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

// Brief shortens an error's text to what a report quotes of it.
func Brief(s string) string { return Clip(s, maxBrief) }

// Clip shortens a text to at most limit bytes of valid UTF-8.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const more = "..."
	return strings.ToValidUTF8(s[:limit-len(more)], "") + more
}
