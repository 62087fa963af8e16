package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

func newToken(streams genericiooptions.IOStreams) *cobra.Command {
	c := newConnection(false)
	cmd := &cobra.Command{
		Use: "token", Aliases: []string{"tokens"},
		Short: "Create, list and revoke tokens of people and programs",
		Long: `Create, list and revoke tokens of people and programs. A token is shown once; the
hub keeps a hash of it. What is open by a token ends when the token is revoked or
expires. Agents have no such tokens: see "orrery location --help".
` + exitCodes,
	}
	c.addFlags(cmd.PersistentFlags())
	cmd.AddCommand(newTokenCreate(c, streams), newTokenList(c, streams), newTokenRevoke(c, streams))
	group(cmd)
	return cmd
}

// tokenFlags define the user and lifetime of a token.
type tokenFlags struct {
	user, role, expires, description string
	groups                           []string
}

func (f *tokenFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.user, "user", "", "user that the token is of")
	flags.StringArrayVar(&f.groups, "group", nil, "group that the user is in; may be repeated")
	flags.StringVar(&f.role, "role", "", "role in the space: view, edit or admin")
	flags.StringVar(&f.expires, "expires", "", "how long the token lives, as in 12h or 90d (default 30d, at most 366d)")
	flags.StringVar(&f.description, "description", "", "what the token is for")
}

// spec returns the requested token.
func (f *tokenFlags) spec(cmd *cobra.Command, space string) (v1alpha1.TokenSpec, error) {
	spec := v1alpha1.TokenSpec{User: f.user, Groups: f.groups, Space: space, Role: v1alpha1.RoleName(f.role), Description: f.description}
	roles := []v1alpha1.RoleName{"", v1alpha1.RoleView, v1alpha1.RoleEdit, v1alpha1.RoleAdmin}
	if !slices.Contains(roles, spec.Role) {
		return spec, badUsage(cmd, "role %q: want view, edit or admin", f.role)
	}
	if space != "" && key.ValidateName(space) != nil {
		return spec, badUsage(cmd, "%v", key.ValidateName(space))
	}
	if f.expires == "" {
		return spec, nil
	}
	life, err := parseLife(f.expires)
	if err != nil {
		return spec, badUsage(cmd, "--expires %q: want a time as in 12h or 90d", f.expires)
	}
	seconds := int64(life.Seconds())
	spec.ExpirationSeconds = &seconds
	return spec, nil
}

// parseLife parses a duration, which may be in days.
func parseLife(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}

// makeToken creates a token at the hub.
func (h *hubClient) makeToken(ctx context.Context, spec v1alpha1.TokenSpec) (made v1alpha1.Token, err error) {
	err = h.create(ctx, v1alpha1.Token{TypeMeta: typeMeta("Token"), Spec: spec}, &made, route.Tokens)
	return made, err
}

func newTokenCreate(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var f tokenFlags
	var o output
	space := ""
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a token, and print it",
		Long: `Create a token, and print it to standard output. Its properties go to standard error.
Without flags the token is for yourself, and has your rights. It ends with the
credential that creates it, or before.

To create a token for another user you need "post" on the path /admin/v1/tokens, and
"impersonate" on the user and the groups. To create a token with a role in a space you
need the right to grant that role there. Without --user, such a token is a user of its
own. With --space the token is valid only in this space, and not in a later space of
the same name.
`,
		Example: `  TOKEN=$(orrery token create --space shop --role edit --description ci --expires 90d)
  orrery token create --user jane --group developers`,
		Args: want(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			spec, err := f.spec(cmd, space)
			if err != nil {
				return err
			}
			h, err := c.open("")
			if err != nil {
				return err
			}
			made, err := h.makeToken(cmd.Context(), spec)
			if err != nil {
				return err
			}
			if o.structured() {
				return o.data(streams.Out, made)
			}
			if _, err := fmt.Fprintf(streams.ErrOut, "token %s of user %s, until %s\n", made.Name, made.Status.User, until(&made)); err != nil {
				return err
			}
			_, err = fmt.Fprintln(streams.Out, made.Status.Token)
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&space, "space", "", "space that the token is good for; no other")
	o.addFlag(cmd, "text", formatJSON, formatYAML)
	return cmd
}

func until(t *v1alpha1.Token) string {
	return t.Status.ExpirationTimestamp.UTC().Format(time.RFC3339)
}

func newTokenList(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Short: "List tokens: all, or those that are yours and of spaces that you administer",
		Args:  want(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			h, err := c.open("")
			if err != nil {
				return err
			}
			var list v1alpha1.TokenList
			if err := h.get(cmd.Context(), asJSON, &list, route.Tokens); err != nil {
				return err
			}
			if o.structured() {
				return o.data(streams.Out, list)
			}
			return o.table(streams.Out, streams.ErrOut, tokenTable(list.Items, time.Now()), "tokens; create one with: orrery token create")
		},
	}
	o.addListFlag(cmd, objectEntries("token"))
	return cmd
}

func tokenTable(tokens []v1alpha1.Token, now time.Time) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: columns("Id", "User", "Groups+", "Space", "Role", "Expires", "Age", "By+", "From+", "Description")}
	for i := range tokens {
		token := &tokens[i]
		expires := "expired"
		if left := token.Status.ExpirationTimestamp.Sub(now); left > 0 {
			expires = duration.HumanDuration(left)
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{
			token.Name, token.Status.User, strings.Join(token.Status.Groups, ","), token.Spec.Space, string(token.Spec.Role), expires,
			duration.HumanDuration(now.Sub(token.CreationTimestamp.Time)), token.Status.Creator, token.Status.From, token.Spec.Description,
		}, Object: runtime.RawExtension{}})
	}
	return t
}

func newTokenRevoke(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID...",
		Short:   "Revoke tokens, and those that their owners made from them",
		Example: `  orrery token revoke 7k3mq5xw2abc`,
		Args:    want(1, 100, "ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := c.open("")
			if err != nil {
				return err
			}
			for _, id := range args {
				if err := h.delete(cmd.Context(), route.Tokens, id); err != nil {
					return err
				}
				if _, err := fmt.Fprintf(streams.Out, "token %s revoked\n", id); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
