package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxLost is the maximum number of agents in an error message.
	maxLost = 20
	// locationsPage is the number of locations per request, and locationsTimeout the time limit for
	// all requests.
	locationsPage    = 500
	locationsTimeout = time.Minute
)

// needs is the set of requirements on agents after a step.
type needs struct {
	// signs is the authority that signs the hub's certificate. removed is the authority that is no
	// longer trusted; empty if there is none.
	signs, removed string
	// before are the authorities that were trusted before the step.
	before []string
}

// needs returns the requirements of a step. ok is false if the step locks out no agent, or can't be
// taken.
func (r rotation) needs(is enroll.Rotation, step enroll.Step) (n needs, ok bool) {
	before, err := r.trusted()
	const both = 2
	if err != nil || len(before) != both {
		return n, false // the step itself fails, or creates the second authority
	}
	n.before = before
	switch {
	case step == enroll.Switch && is == enroll.Announced, step == enroll.Undo && is == enroll.Switched:
		n.signs = before[1]
	case step == enroll.Finish && is == enroll.Switched, step == enroll.Undo && is == enroll.Announced:
		n.signs, n.removed = before[0], before[1]
	default:
		return n, false
	}
	return n, true
}

// await waits until a step would lock out no agent. After r.wait it returns the agents that it
// would still lock out.
func (r rotation) await(ctx context.Context, n needs) (lost []string, err error) {
	for end := time.Now().Add(r.wait); ; {
		if lost, err = r.lost(ctx, n); err == nil && len(lost) == 0 || time.Until(end) <= 0 {
			return lost, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return lost, ctx.Err()
		}
	}
}

// lost returns the agents that a step would lock out, each with the reason.
func (r rotation) lost(ctx context.Context, n needs) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, locationsTimeout)
	defer cancel()
	c := newConnection(false)
	if *c.flags.KubeConfig = r.kubeconfig; r.kubeconfig == "" {
		*c.flags.KubeConfig = filepath.Join(r.dir, "admin.kubeconfig")
	}
	h, err := c.open(string(key.Root))
	if err != nil {
		return nil, err
	}
	var all []string
	more := 0
	if err := h.locations(ctx, func(l *v1alpha1.Location) {
		why := n.missing(l)
		switch {
		case why == "":
		case len(all) == maxLost:
			more++
		default:
			all = append(all, fmt.Sprintf("  %s: %s", l.Name, why))
		}
	}); err != nil {
		return nil, err
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("  and %d more", more))
	}
	return all, nil
}

// locations calls each with all locations of a hub, page by page.
func (h *hubClient) locations(ctx context.Context, each func(*v1alpha1.Location)) error {
	for next := ""; ; {
		request := h.rest.Get().AbsPath(rootPath(key.Locations)...).Param("limit", fmt.Sprint(locationsPage)).SetHeader("Accept", asJSON)
		if next != "" {
			request.Param("continue", next)
		}
		var page v1alpha1.LocationList
		if err := decode(request.Do(ctx), &page); err != nil {
			return err
		}
		for i := range page.Items {
			each(&page.Items[i])
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// missing returns what the agent of a location lacks; empty if it lacks nothing, or no agent is
// enrolled.
func (n needs) missing(l *v1alpha1.Location) string {
	enrolled := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionEnrolled)
	if enrolled == nil || enrolled.Status != metav1.ConditionTrue {
		return ""
	}
	a := l.Status.Agent
	if a == nil {
		a = &v1alpha1.AgentStatus{}
	}
	own := slices.ContainsFunc(a.Trusts, func(one string) bool { return slices.Contains(n.before, one) })
	switch {
	case own && !slices.Contains(a.Trusts, n.signs):
		return "it trusts " + strings.Join(a.Trusts, ", ") + " and does not yet trust " + n.signs
	case n.removed == "":
		return ""
	case a.SignedBy == "":
		return "it has not yet reported which authority signed its certificate"
	case a.SignedBy == n.removed:
		return "its certificate was signed by " + n.removed
	}
	return ""
}
