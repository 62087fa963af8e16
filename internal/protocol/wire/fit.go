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
	// MaxReport is the maximum size of a report in the log, in bytes.
	MaxReport = 512 << 10
	// MaxStatusDepth is the maximum nesting of objects and lists in the status of a report. An
	// object of a space with such a status is below the limit for objects that users write.
	MaxStatusDepth = 100
	// MaxObjectDepth is the maximum nesting in the object of a report.
	MaxObjectDepth = 200
	// maxReportText is the maximum size of each string of a report, in bytes.
	maxReportText = 4 << 10
	// maxBrief is the maximum number of bytes that a report quotes of an error.
	maxBrief = 1024
	// escaped is the maximum number of bytes of one byte in JSON.
	escaped = 6
)

// Fit returns the report in the form of the log. It omits a status or object that is too large,
// nested too deeply, or has duplicate names, and gives the reason in the message, so that at least
// the state arrives. Invalid UTF-8 becomes U+FFFD, as in Kubernetes. Agents and hubs both apply
// Fit, and it does not change its own result, so both have the same bytes.
func (r Report) Fit() Report {
	r.UID, r.Reason, r.Message = clip(r.UID), clip(r.Reason), clip(r.Message)
	r.Since, r.Completed, r.State = clip(r.Since), clip(r.Completed), State(clip(string(r.State)))
	r.Cause, r.LetGoBy = Cause(clip(string(r.Cause))), clip(r.LetGoBy)
	r.Owner, r.Health, r.HealthNote = clip(r.Owner), Health(clip(string(r.Health))), clip(r.HealthNote)
	r.Diagnosis = clip(r.Diagnosis)
	r.Object, r.Status = validUTF8(r.Object), validUTF8(r.Status)
	if why := unfit(r.Object, MaxObjectDepth); why != "" {
		r.dropObject(why)
	}
	if why := unfit(r.Status, MaxStatusDepth); why != "" {
		r.dropStatus(why)
	}
	const texts = 13 * maxReportText * escaped
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

// tooLarge returns the reason for omitting a status or object larger than MaxReport.
func tooLarge() string { return fmt.Sprintf("a report may have %d", MaxReport) }

// validUTF8 returns JSON without invalid UTF-8, which only its strings can contain.
func validUTF8(text json.RawMessage) json.RawMessage {
	if len(text) > MaxReport || utf8.Valid(text) {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\uFFFD"))
}

// unfit returns the reason for omitting a status or object, independent of the rest of the report;
// empty if it can stay. The order limits the work: size, depth, and then names.
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

// maxName is the maximum number of bytes that a message quotes of a field's name.
const maxName = 100

func (r *Report) dropObject(why string) {
	r.ObjectBytes, r.Object = len(r.Object), nil
	r.omitField("object", r.ObjectBytes, why)
}

func (r *Report) dropStatus(why string) {
	r.StatusBytes, r.Status = len(r.Status), nil
	r.omitField("status", r.StatusBytes, why)
}

// omitField adds an omitted field and the reason to the message.
func (r *Report) omitField(what string, size int, why string) {
	omission := fmt.Sprintf("its %s of %d bytes is left out: %s", what, size, why)
	if r.Message != "" {
		omission = r.Message + "; " + omission
	}
	r.Message = clip(omission)
}

func clip(s string) string { return Clip(s, maxReportText) }

// Brief shortens the text of an error for a report.
func Brief(s string) string { return Clip(s, maxBrief) }

// Clip returns a text that is safe to print: one line of printable characters in valid UTF-8, of at
// most limit bytes. Texts from a cluster may contain escape sequences that make a terminal show
// wrong output.
func Clip(s string, limit int) string {
	s = printable(s)
	if len(s) <= limit {
		return s
	}
	const more = "..."
	return strings.ToValidUTF8(s[:limit-len(more)], "") + more
}

// printable replaces characters that are not printable.
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

// WithDiagnosis returns a HealthNote with the diagnosis of the same report; each may be empty.
func WithDiagnosis(explanation, diagnosis string) string {
	if explanation == "" || diagnosis == "" {
		return explanation + diagnosis
	}
	return explanation + "; " + diagnosis
}
