package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/lib/process"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// finding is the result of one check.
type finding struct {
	Check   string `json:"check"`
	OK      bool   `json:"ok"`
	Message string `json:"message"`
	// Next is what to do about a problem: a command, or a sentence.
	Next string `json:"next,omitempty"`
}

// checker runs the checks of `orrery check` and collects their findings.
type checker struct {
	connection *connection
	findings   []finding
}

func newCheck(streams genericiooptions.IOStreams) *cobra.Command {
	c := &checker{connection: newConnection(false)}
	var o output
	space := ""
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Find what is wrong with the kubeconfig, the hub, rights, locations and Placements",
		Long: `Check one after the other the kubeconfig, the hub, the credential, the space, the
rights in it, its locations and its Placements. Each problem is shown with the next
thing to do. The exit code is 3 if there is a problem.
` + exitCodes,
		Example: `  orrery check
  orrery check --kubeconfig shop.kubeconfig
  orrery check --space shop -o json`,
		Args: want(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			c.run(cmd.Context(), space)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if err := c.print(streams, &o); err != nil {
				return err
			}
			if slices.ContainsFunc(c.findings, func(f finding) bool { return !f.OK }) {
				return errNo
			}
			return nil
		},
	}
	c.connection.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&space, "space", "S", "", "space to check (default that of the kubeconfig)")
	o.addFlag(cmd, "text", formatJSON, formatYAML)
	return cmd
}

func (c *checker) ok(check, format string, args ...any) {
	c.findings = append(c.findings, finding{Check: check, OK: true, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) problem(check, next, format string, args ...any) {
	c.findings = append(c.findings, finding{Check: check, Message: oneLine(fmt.Sprintf(format, args...)), Next: next})
}

// run runs the checks, up to the first that makes the others meaningless.
func (c *checker) run(ctx context.Context, space string) {
	h, err := c.connection.open(space)
	if err != nil {
		c.problem("kubeconfig", "use --kubeconfig FILE or set KUBECONFIG", "%v", err)
		return
	}
	c.ok("kubeconfig", "space %s of hub %s", h.space, withoutUser(h.hub))
	if !c.checkHub(ctx, h) || !c.checkUser(ctx, h) {
		return
	}
	c.checkLocations(ctx, h)
	c.checkPlacements(ctx, h)
}

// checkHub checks that the hub answers, accepts the credential, and has the space.
func (c *checker) checkHub(ctx context.Context, h *hubClient) bool {
	var info struct{ Orrery string }
	err := h.get(ctx, asJSON, &info, route.Space(h.space).Path("version"))
	switch {
	case err == nil:
	case apierrors.IsUnauthorized(err):
		c.problem("credential", "ask an operator for a new one: orrery space kubeconfig "+string(h.space), "%v", err)
		return false
	case apierrors.IsForbidden(err):
		c.problem("rights", "ask an administrator of the space for a Grant, or check the name of the space",
			"the credential has no rights in space %q, or the space does not exist", h.space)
		return false
	case apierrors.IsNotFound(err):
		c.problem("space", "orrery space list", "space %q does not exist", h.space)
		return false
	case errors.As(err, new(*tls.CertificateVerificationError)):
		c.problem("hub", "use the kubeconfig of this hub: --kubeconfig FILE or KUBECONFIG", "%s", describe(err))
		return false
	default:
		c.problem("hub", "check that the hub runs, and that this machine reaches "+withoutUser(h.hub), "%s", describe(err))
		return false
	}
	if own := process.Version(); info.Orrery != own {
		c.ok("hub", "answers; its version is %s, and that of this command %s", hubOrUnknown(info.Orrery), own)
	} else {
		c.ok("hub", "answers; its version is %s", own)
	}
	return true
}

// checkUser checks the rights to use Placements in the space. It returns false if the user may not
// read anything.
func (c *checker) checkUser(ctx context.Context, h *hubClient) bool {
	review := authenticationv1.SelfSubjectReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}}
	if err := h.create(ctx, review, &review, route.Space(h.space).Path("apis/authentication.k8s.io/v1/selfsubjectreviews")); err != nil {
		c.problem("credential", "run it again: orrery check", "the hub does not answer which user it is: %v", err)
		return false
	}
	c.ok("credential", "user %s", review.Status.UserInfo.Username)
	var may, mayNot []string
	for _, verb := range []string{"list", "create"} {
		allowed, err := h.may(ctx, h.space, verb, key.Placements)
		switch {
		case err != nil:
			c.problem("rights", "run it again: orrery check", "the hub does not answer which rights the user has: %v", err)
			return false
		case allowed:
			may = append(may, verb)
		default:
			mayNot = append(mayNot, verb)
		}
	}
	if len(mayNot) == 0 {
		c.ok("rights", "may list and create Placements in space %s", h.space)
		return true
	}
	if slices.Contains(may, "list") {
		c.ok("rights", "may list, but not create, Placements in space %s", h.space)
		return true
	}
	c.problem("rights", "ask an administrator of the space for a Grant with the role view", "may not list Placements in space %s", h.space)
	return false
}

// may reports whether the user may use a verb on all objects of a resource in a space.
func (h *hubClient) may(ctx context.Context, space key.Space, verb string, r key.Resource) (bool, error) {
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: r.Group, Resource: r.Resource,
		}},
	}
	err := h.create(ctx, review, &review, route.Space(space).Path("apis/authorization.k8s.io/v1/selfsubjectaccessreviews"))
	return review.Status.Allowed, err
}

// checkLocations checks that there are locations, and the state of each.
func (c *checker) checkLocations(ctx context.Context, h *hubClient) {
	var list v1alpha1.LocationList
	if err := h.get(ctx, asJSON, &list, spacePath(h.space, key.Locations)...); err != nil {
		c.problem("locations", "ask an operator for the right to list locations", "%v", err)
		return
	}
	isOperator, err := h.may(ctx, key.Root, "update", key.Locations)
	isOperator = err == nil && isOperator // a credential of one space may not even ask
	if len(list.Items) == 0 {
		next := "ask an operator to admit the space at a location (spec.admit)"
		if isOperator {
			next = "orrery location add NAME"
		}
		c.problem("locations", next, "no location accepts objects of space %s", h.space)
		return
	}
	f := fleetOf(list.Items)
	for _, l := range f.Locations {
		if l.Wrong != "" {
			c.problem("location "+l.Name, nextForLocation(l, isOperator), "%s: %s", l.Wrong, l.Message)
		}
	}
	if f.Wrong == 0 {
		c.ok("locations", "%d, all connected", len(f.Locations))
	}
}

// nextForLocation returns what to do about the worst problem of a location.
func nextForLocation(l fleetLocation, isOperator bool) string {
	if !isOperator {
		return "ask an operator; details: orrery location describe " + l.Name
	}
	switch l.Wrong {
	case "NoAgent":
		return "orrery location token " + l.Name
	case "Paused":
		return "orrery location resume " + l.Name
	case "Failed", "Unhealthy", "Held", "Pending":
		return "orrery status --all-spaces --state Failed,Held,Pending"
	}
	return "look at the log of the agent at the site; details: orrery location describe " + l.Name
}

// checkPlacements checks the Placements of the space.
func (c *checker) checkPlacements(ctx context.Context, h *hubClient) {
	var status queries.SpaceStatus
	if err := h.query(ctx, route.Status, url.Values{"limit": {"1"}}, &status); err != nil {
		c.problem("placements", "orrery status", "%v", err)
		return
	}
	wrong := 0
	for _, p := range status.Placements {
		var problem string
		next := fmt.Sprintf("orrery status --space %s --placement %s --state Failed,Held,Conflict,Unsupported,Pending", h.space, p.Name)
		switch {
		case len(p.Problems) > 0:
			problem, next = p.Problems[0], fmt.Sprintf("change the Placement: kubectl edit placement %s", p.Name)
		case len(p.Unknown) > 0:
			problem, next = "no location that accepts objects of this space has the name "+strings.Join(p.Unknown, ", "), "orrery location list"
		case p.Objects == 0:
			problem, next = "selects no object", fmt.Sprintf("create an object that spec.downsync selects, or change it: kubectl edit placement %s", p.Name)
		case p.Locations == 0:
			problem, next = "selects no location", "compare spec.locations with: kubectl get locations --show-labels"
		case p.Applied < p.Assigned:
			problem = fmt.Sprintf("%d of %d assigned objects are not applied", p.Assigned-p.Applied, p.Assigned)
		case p.Assigned == 0:
			problem, next = "assigns nothing, though it selects objects and locations", "orrery why KIND/NAME --location L"
		case p.Healthy < p.Applied:
			problem = fmt.Sprintf("%d of %d applied objects are not healthy", p.Applied-p.Healthy, p.Applied)
			next = fmt.Sprintf("orrery status --space %s --placement %s", h.space, p.Name)
		default:
			continue
		}
		wrong++
		c.problem("placement "+string(p.Name), next, "%s", problem)
	}
	for i := range status.Waiting {
		wrong++
		c.problem("removals of "+cmp.Or(string(status.Waiting[i].Placement), "no Placement"), fmt.Sprintf("orrery status --space %s", h.space), "wait for a confirmation")
	}
	if n := status.OmittedPlacements; n > 0 {
		wrong++
		c.problem("placements", fmt.Sprintf("kubectl get placements; one by one: orrery status --space %s --placement NAME", h.space), "%d more Placements are not checked, since that would take too long", n)
	}
	if wrong == 0 && len(status.Placements) == 0 {
		c.ok("placements", "none in space %s, so none of its objects goes to a location", h.space)
	} else if wrong == 0 {
		c.ok("placements", "%d, everything assigned is applied and healthy", len(status.Placements))
	}
}

// print prints the findings.
func (c *checker) print(streams genericiooptions.IOStreams, o *output) error {
	if o.structured() {
		return o.data(streams.Out, map[string]any{"findings": c.findings})
	}
	var err error
	for _, f := range c.findings {
		text := fmt.Sprintf("ok       %s: %s\n", f.Check, f.Message)
		if !f.OK {
			text = fmt.Sprintf("problem  %s: %s\n           next: %s\n", f.Check, f.Message, f.Next)
		}
		_, printed := fmt.Fprint(streams.Out, text)
		err = errors.Join(err, printed)
	}
	return err
}
