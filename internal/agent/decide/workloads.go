package decide

import (
	"encoding/json"

	"orrery.dev/orrery/internal/protocol/key"
)

// RunsOnce says whether objects of the resource run to completion, after which they must
// not run again.
func RunsOnce(r key.Resource) bool { return isJob(r) || isPod(r) }

func isJob(r key.Resource) bool { return r == key.NewResource("batch", "jobs") }

func isPod(r key.Resource) bool { return r == key.NewResource("", "pods") }

// Ending is how an object at the target ran to its end.
type Ending struct{ UID, How string }

// HowEnded reads from a status how a Job or Pod ran to its end; empty: it did not. A Pod
// that was evicted, or otherwise disrupted, did not.
func HowEnded(r key.Resource, status []byte) string {
	if !RunsOnce(r) {
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
		return "" // this is not the status of a Job or Pod
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

// succeeded reports whether a Job or Pod that ran to its end, as HowEnded has it, did what it was to do.
func succeeded(how string) bool { return how == "Complete" || how == "Succeeded" }

// IsProvided reports whether a cluster makes an object itself, in every namespace. Whether the agent or the cluster
// is first is a race, so the object is adopted. When it is no longer desired it stays: the cluster would make it
// anew, and Pods whose token is of its UID would lose their access.
func IsProvided(id key.Identity) bool {
	switch id.Resource {
	case key.NewResource("", "serviceaccounts"):
		return id.Name == "default"
	case key.NewResource("", "configmaps"):
		return id.Name == "kube-root-ca.crt"
	default:
		return false
	}
}

// OwnsPods says whether objects of the resource own Pods, directly or not.
func OwnsPods(r key.Resource) bool {
	switch r {
	case key.NewResource("apps", "deployments"), key.NewResource("apps", "replicasets"), key.NewResource("apps", "statefulsets"),
		key.NewResource("apps", "daemonsets"), key.NewResource("batch", "jobs"), key.NewResource("batch", "cronjobs"),
		key.NewResource("", "replicationcontrollers"):
		return true
	default:
		return false
	}
}
