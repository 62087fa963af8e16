package mapper

import (
	"encoding/json"

	"orrery.dev/orrery/internal/key"
)

// runsOnce says whether an object of the resource may come to an end of its own,
// after which it must not run again.
func runsOnce(r key.Resource) bool { return isJob(r) || isPod(r) }

func isJob(r key.Resource) bool { return r == key.NewResource("batch", "jobs") }

func isPod(r key.Resource) bool { return r == key.NewResource("", "pods") }

// ending is how an object at the target ran to its end.
type ending struct{ uid, how string }

// howEnded reads from a status how a Job or Pod ran to its end; empty: it did
// not. A Pod that was taken from its node did not.
func howEnded(r key.Resource, status []byte) string {
	if !runsOnce(r) {
		return ""
	}
	var s struct {
		Phase      string `json:"phase"`
		Reason     string `json:"reason"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	}
	if json.Unmarshal(status, &s) != nil {
		return "" // no status of a Job or a Pod
	}
	has := map[string]bool{}
	for _, c := range s.Conditions {
		has[c.Type] = c.Status == "True"
	}
	switch {
	case isJob(r) && has["Complete"]:
		return "Complete"
	case isJob(r) && has["Failed"]:
		return "Failed"
	case isJob(r):
		return ""
	case s.Phase == "Succeeded":
		return s.Phase
	case s.Phase == "Failed" && !has["DisruptionTarget"] && (s.Reason == "" || s.Reason == "DeadlineExceeded"):
		return s.Phase
	}
	return ""
}

// ended is how what is desired ran to its end, by what was observed or by its
// last report, which is where it is kept; empty: it did not. reported says
// that the report is of what is desired, as it is.
func (t *turn) ended() (how string, reported bool) {
	w := t.want()
	if w == nil || w.Object() == nil {
		return "", false
	}
	space, s := t.object().Space, w.Object()
	if r := t.before[space]; r != nil && r.UID == s.UID && r.Digest == s.Digest {
		how, reported = r.Completed, true
	}
	rec := t.record
	if rec != nil && rec.Space == space && rec.Source.UID == s.UID && rec.Source.Digest == s.Digest &&
		t.view.ending.uid == rec.UID && t.view.ending.how != "" {
		how = t.view.ending.how
	}
	return how, reported
}
