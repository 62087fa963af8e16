package protocol

import (
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/wire"
)

// answer is the response to a call: lines, or, if code is not 0, a refusal.
type answer struct {
	lines  []any
	code   int
	reason string
}

func refused(code int, format string, args ...any) answer {
	return answer{code: code, reason: fmt.Sprintf(format, args...)}
}

func (a answer) write(w http.ResponseWriter) {
	if a.code == 0 {
		_, _ = w.Write(Lines(a.lines...)) // the agent may be gone
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // as above
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(a.code), Message: a.reason,
	})
}

// settingsFor returns the settings for an agent that supports upsync or does not.
func settingsFor(s wire.Settings, canUpsync bool) wire.Settings {
	if !canUpsync {
		s.Upsync, s.UpsyncObjects, s.UpsyncBytes, s.Dropped = nil, 0, 0, 0
	}
	return s
}

// frameFor returns a frame for an agent that supports upsync or does not.
func frameFor(f wire.Frame, canUpsync bool) wire.Frame {
	if f.Put != nil && !canUpsync {
		p := *f.Put
		p.Policy.Associated = ""
		f.Put = &p
	}
	return f
}
