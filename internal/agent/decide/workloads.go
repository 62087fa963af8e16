package decide

import (
	"encoding/json"

	"orrery.dev/orrery/internal/protocol/key"
)

// RunsOnce reports whether objects of the resource run to completion, after which they must not run again.
func RunsOnce(r key.Resource) bool { return isJob(r) || isPod(r) }

func isJob(r key.Resource) bool { return r == key.NewResource("batch", "jobs") }

func isPod(r key.Resource) bool { return r == key.NewResource("", "pods") }

// Ending is the end of a Job or Pod at the target: its UID, and the state in which it ended.
type Ending struct{ UID, How string }

// HowEnded returns the state in which a Job or Pod ended, from its status. It returns an empty string if the
// object has not ended. A Pod that was evicted, or otherwise disrupted, has not.
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
	isTrue := map[string]bool{}
	for _, c := range s.Conditions {
		isTrue[c.Type] = c.Status == "True"
	}
	switch {
	case isJob(r) && isTrue["Complete"]:
		return "Complete"
	case isJob(r) && isTrue["Failed"]:
		return "Failed"
	case isJob(r):
		return ""
	case s.Phase == "Succeeded":
		return s.Phase
	case s.Phase == "Failed" && !isTrue["DisruptionTarget"] && (s.Reason == "" || s.Reason == "DeadlineExceeded"):
		return s.Phase
	}
	return ""
}

// succeeded reports whether a Job or Pod ended with success, by the value of HowEnded.
func succeeded(how string) bool { return how == "Complete" || how == "Succeeded" }

// IsProvided reports whether each cluster creates an object itself, in every namespace. The agent adopts such an
// object, since the cluster may create it first. The object stays when it is no longer desired: the cluster
// would create it again, and Pods whose token has its UID would lose their access.
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

// OwnsPods reports whether objects of the resource own Pods, directly or indirectly.
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
