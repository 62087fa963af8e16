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
	// maxLost is how many agents are named.
	maxLost = 20
	// locationsPage is how many locations are asked for at once, and locationsTimeout how
	// long the hub may take for all.
	locationsPage    = 500
	locationsTimeout = time.Minute
)

// needs are what agents need to be let in after a step.
type needs struct {
	// signs is the authority of the hub's certificate, and goes one that is to be trusted
	// no more; empty: none.
	signs, goes string
	// before are those that were trusted.
	before []string
}

// needs are those of a step. ok is false if it locks nobody out, or can't be taken.
func (r rotation) needs(is enroll.Rotation, step enroll.Step) (n needs, ok bool) {
	before, err := r.trusted()
	const both = 2
	if err != nil || len(before) != both {
		return n, false // the step itself fails, or makes the second one
	}
	n.before = before
	switch {
	case step == enroll.Switch && is == enroll.Announced, step == enroll.Undo && is == enroll.Switched:
		n.signs = before[1]
	case step == enroll.Finish && is == enroll.Switched, step == enroll.Undo && is == enroll.Announced:
		n.signs, n.goes = before[0], before[1]
	default:
		return n, false
	}
	return n, true
}

// await waits until a step would lock out nobody, and returns whom it still would then.
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

// lost are the agents that a step would lock out, each with the reason.
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

// locations shows all locations of a hub, page by page.
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

// missing is what the agent of a location lacks; empty: nothing, or nobody is let in.
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
		return "it trusts " + strings.Join(a.Trusts, ", ") + " and has not been told of " + n.signs
	case n.goes == "":
		return ""
	case a.SignedBy == "":
		return "it has not said since this hub knows it by whom its certificate was signed"
	case a.SignedBy == n.goes:
		return "its certificate was signed by " + n.goes
	}
	return ""
}
