package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

const (
	// MaxReport is how many bytes a report may take in the log.
	MaxReport = 512 << 10
	// MaxStatusDepth is how deeply objects and lists may be nested in the status of a report. An object of a space that
	// has such a status is within what the hub takes from its users, who could not write it otherwise.
	MaxStatusDepth = 100
	// MaxObjectDepth is the same of the object of a report.
	MaxObjectDepth = 200
	// maxReportText is how many bytes each of a report's texts may take.
	maxReportText = 4 << 10
	// maxBrief is how many bytes a report quotes of an error.
	maxBrief = 1024
	// escaped is how many bytes one byte can take in JSON.
	escaped = 6
)

// Fit is the report as the log takes it: a status or object that is too large, nested too deeply, or has a name
// twice is left out, with the reason in the message, so that at least the state arrives. Bytes that are no UTF-8 become
// U+FFFD, as Kubernetes has it. Agents and hubs both apply it, and a report that fits is unchanged, so both keep
// the same bytes.
func (r Report) Fit() Report {
	r.UID, r.Reason, r.Message = clip(r.UID), clip(r.Reason), clip(r.Message)
	r.Since, r.Completed, r.State = clip(r.Since), clip(r.Completed), State(clip(string(r.State)))
	r.Cause, r.LetGoBy = Cause(clip(string(r.Cause))), clip(r.LetGoBy)
	r.Owner, r.Health, r.HealthNote = clip(r.Owner), Health(clip(string(r.Health))), clip(r.HealthNote)
	r.Object, r.Status = validUTF8(r.Object), validUTF8(r.Status)
	if why := unfit(r.Object, MaxObjectDepth); why != "" {
		r.dropObject(why)
	}
	if why := unfit(r.Status, MaxStatusDepth); why != "" {
		r.dropStatus(why)
	}
	const texts = 12 * maxReportText * escaped
	if (len(r.Status)+len(r.Object))*escaped+texts <= MaxReport {
		return r
	}
	if b, err := json.Marshal(r); err != nil || len(b) <= MaxReport {
		return r // a status that is not JSON is refused elsewhere
	}
	if len(r.Object) > 0 {
		r.dropObject(tooLarge())
	}
	if len(r.Status) > 0 {
		r.dropStatus(tooLarge())
	}
	return r
}

// tooLarge is the reason to leave out a status or object that exceeds MaxReport.
func tooLarge() string { return fmt.Sprintf("a report may have %d", MaxReport) }

// validUTF8 is JSON without bytes that are no UTF-8, which only its texts may have.
func validUTF8(text json.RawMessage) json.RawMessage {
	if len(text) > MaxReport || utf8.Valid(text) {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\uFFFD"))
}

// unfit is the reason to leave a status or object out of a report, whatever else the report has; empty: there is
// none. The order bounds the work: size, depth, and then the names.
func unfit(text json.RawMessage, depth int) (why string) {
	if len(text) > MaxReport {
		return tooLarge()
	}
	if jsonscan.Deeper(text, depth) {
		return fmt.Sprintf("objects and lists may be nested %d levels deep in it", depth)
	}
	if name, ok := jsonscan.Repeated(text); ok {
		return fmt.Sprintf("an object in it has the field %q twice", Clip(name, maxName))
	}
	return ""
}

// maxName is how many bytes of a field's name a message quotes.
const maxName = 100

func (r *Report) dropObject(why string) {
	r.ObjectBytes, r.Object = len(r.Object), nil
	r.leftOut("object", r.ObjectBytes, why)
}

func (r *Report) dropStatus(why string) {
	r.StatusBytes, r.Status = len(r.Status), nil
	r.leftOut("status", r.StatusBytes, why)
}

// leftOut has the message say what is left out.
func (r *Report) leftOut(what string, size int, why string) {
	said := fmt.Sprintf("its %s of %d bytes is left out: %s", what, size, why)
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
