package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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

// Fit is the report as the log takes it: if it is too large, the status or the object is left
// out and the message says how large it is, so that at least the state arrives. Agents and hubs
// both apply it, and a report that fits is unchanged, so both keep the same bytes.
func (r Report) Fit() Report {
	r.UID, r.Reason, r.Message = clip(r.UID), clip(r.Reason), clip(r.Message)
	r.Since, r.Completed, r.State = clip(r.Since), clip(r.Completed), State(clip(string(r.State)))
	r.Cause, r.LetGoBy = Cause(clip(string(r.Cause))), clip(r.LetGoBy)
	r.Owner, r.Health, r.HealthNote = clip(r.Owner), Health(clip(string(r.Health))), clip(r.HealthNote)
	const texts = 12 * maxReportText * escaped
	if (len(r.Status)+len(r.Object))*escaped+texts <= MaxReport {
		return r
	}
	if b, err := json.Marshal(r); err != nil || len(b) <= MaxReport {
		return r // a status that is not JSON is refused elsewhere
	}
	if len(r.Object) > 0 {
		r.ObjectBytes, r.Object = len(r.Object), nil
		r.leftOut("object", r.ObjectBytes)
	}
	if len(r.Status) > 0 {
		r.StatusBytes, r.Status = len(r.Status), nil
		r.leftOut("status", r.StatusBytes)
	}
	return r
}

// leftOut has the message say what is left out.
func (r *Report) leftOut(what string, size int) {
	said := fmt.Sprintf("its %s of %d bytes is left out: a report may have %d", what, size, MaxReport)
	if r.Message != "" {
		said = r.Message + "; " + said
	}
	r.Message = clip(said)
}

func clip(s string) string { return Clip(s, maxReportText) }

// Brief shortens an error's text to what a report quotes of it.
func Brief(s string) string { return Clip(s, maxBrief) }

// Clip is a text as it may be shown to people: one line of printable characters in valid
// UTF-8, of at most limit bytes. What is from a cluster may hold what tells a terminal to
// show something else than what is there.
func Clip(s string, limit int) string {
	s = printable(s)
	if len(s) <= limit {
		return s
	}
	const more = "..."
	return strings.ToValidUTF8(s[:limit-len(more)], "") + more
}

// printable replaces what does not show as a character of its own.
func printable(s string) string {
	plain := true
	for i := range len(s) {
		plain = plain && s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t', r == '\u2028', r == '\u2029':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == utf8.RuneError:
			return '?'
		}
		return r
	}, s)
}
