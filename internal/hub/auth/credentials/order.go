package credentials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/auth/bearer"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

const (
	// defaultLife and maxLife are the default and the maximum lifetime of a token. certificateLife
	// is both for a certificate, which cannot be revoked.
	defaultLife     = 30 * 24 * time.Hour
	maxLife         = 366 * 24 * time.Hour
	certificateLife = time.Hour
	// maxName and maxGroups bound the names in a token, and maxDescription its description.
	maxName        = 512
	maxGroups      = 64
	maxDescription = 1024
	// maxNames bounds all names of a token, in bytes: a user may have many groups from an issuer,
	// and all are stored with each token.
	maxNames = 32 << 10
)

// order returns the record of the requested token, if the caller may have it.
func (s *Server) order(ctx context.Context, c *caller, id string, spec *v1alpha1.TokenSpec) (record bearer.Record, err error) {
	if err := validate(spec); err != nil {
		return record, err
	}
	now := s.config.Now().Truncate(time.Second)
	record = bearer.Record{
		User: spec.User, Groups: slices.Clone(spec.Groups), Role: string(spec.Role),
		Created: now, Description: spec.Description, Creator: c.GetName(),
	}
	switch {
	case record.User == "" && spec.Space != "":
		record.User = auth.TokenUser + id
	case record.User == "":
		record.User = c.GetName()
	}
	if record.User == c.GetName() && len(record.Groups) == 0 && spec.Role == "" {
		record.Groups = slices.Clone(c.GetGroups())
	}
	record.Groups = slices.DeleteFunc(record.Groups, func(g string) bool { return g == user.AllAuthenticated }) // all users are in it
	if n := len(strings.Join(slices.Concat(record.Groups, []string{record.User}), "")); n > maxNames {
		return record, respond.BadRequest("the token would name %d groups of user %q with %d bytes, want no more than %d; say in spec.groups which it is to have",
			len(record.Groups), record.User, n, maxNames)
	}
	record.Expires = now.Add(c.life(spec, &record, now))
	// The space is looked up before the check of rights. If it is created again in between, the
	// token does not work there. An error about the space is returned after the check, so that only
	// authorized callers learn whether the space exists.
	scope, missing := s.scope(key.Space(spec.Space))
	if err := c.mayMake(ctx, spec, &record); err != nil {
		return record, err
	}
	if record.User == c.GetName() {
		record.From = c.credential.Token
		if err := s.canFollow(record.From); err != nil {
			return record, err
		}
	}
	if spec.Role != "" {
		record.Groups = append(record.Groups, auth.RoleGroup(key.Space(spec.Space), spec.Role))
	}
	slices.Sort(record.Groups)
	record.Groups = slices.Compact(record.Groups)
	record.Scope = scope
	return record, missing
}

func validate(spec *v1alpha1.TokenSpec) error {
	switch {
	case spec.Space != "" && key.ValidateName(spec.Space) != nil:
		return respond.BadRequest("spec.space: %v", key.ValidateName(spec.Space))
	case spec.Role != "" && spec.Space == "":
		return respond.BadRequest("spec.role %q: a role needs a space", spec.Role)
	case spec.Role != "" && !slices.Contains([]v1alpha1.RoleName{v1alpha1.RoleView, v1alpha1.RoleEdit, v1alpha1.RoleAdmin}, spec.Role):
		return respond.BadRequest("spec.role %q: want %s, %s or %s", spec.Role, v1alpha1.RoleView, v1alpha1.RoleEdit, v1alpha1.RoleAdmin)
	case len(spec.Groups) > maxGroups:
		return respond.BadRequest("spec.groups: %d of them, want no more than %d", len(spec.Groups), maxGroups)
	case len(spec.Description) > maxDescription:
		return respond.BadRequest("spec.description: %d bytes, want no more than %d", len(spec.Description), maxDescription)
	}
	for _, name := range append(slices.Clone(spec.Groups), spec.User) {
		if len(name) > maxName || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return respond.BadRequest("user or group %.80q: want up to %d printable characters", name, maxName)
		}
	}
	if slices.Contains(spec.Groups, "") {
		return respond.BadRequest("spec.groups: a group has no name")
	}
	most := maxLife
	if spec.Request != "" {
		most = certificateLife
	}
	if n := spec.ExpirationSeconds; n != nil && (*n < 1 || *n > int64(most.Seconds())) {
		return respond.BadRequest("spec.expirationSeconds %d: want 1 to %d", *n, int64(most.Seconds()))
	}
	return nil
}

// canFollow refuses a token at the end of too long a chain of tokens, each created with the
// previous one.
func (s *Server) canFollow(from string) error {
	for depth := 0; from != ""; depth++ {
		if depth == auth.MaxFrom {
			return respond.BadRequest("the token in use was made from others %d times over; use one of these", depth-1)
		}
		row, _ := s.config.Table.Get(key.Token(from))
		if row == nil {
			return apierrors.NewUnauthorized("the token was just revoked")
		}
		record, err := bearer.Read(row.Value)
		if err != nil {
			return err
		}
		from = record.From
	}
	return nil
}

// scope returns the scope for a space in its present state; nil for no space.
func (s *Server) scope(name key.Space) (*bearer.Scope, error) {
	switch name {
	case "":
		return nil, nil //nolint:nilnil // a token without a scope
	case key.Root:
		return &bearer.Scope{Space: name}, nil
	}
	row, _ := s.config.Table.Get(name.Key())
	if row == nil || !write.Exists(s.config.Table, name) {
		return nil, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource(key.Spaces.Resource).GroupResource(), string(name))
	}
	return &bearer.Scope{Space: name, UID: row.Meta.UID}, nil
}

// caller is the user of a request.
type caller struct {
	user.Info
	credential auth.Credential
	authorizer *auth.Authorizer
	// scope returns the scope for a space in its present state. hands caches in which spaces the
	// caller may delegate all rights.
	scope func(key.Space) (*bearer.Scope, error)
	hands map[bearer.Scope]bool
}

// life returns the lifetime of a token: the requested one or the default. By default, it does not
// exceed that of the credential with which the token is created.
func (c *caller) life(spec *v1alpha1.TokenSpec, record *bearer.Record, now time.Time) time.Duration {
	if spec.ExpirationSeconds != nil {
		return time.Duration(*spec.ExpirationSeconds) * time.Second
	}
	life := defaultLife
	if spec.Request != "" {
		life = certificateLife
	}
	if until := c.credential.Until; record.User == c.GetName() && !until.IsZero() {
		life = min(life, until.Sub(now))
	}
	return life
}

// mayMake refuses tokens that the caller may not create. It does not depend on which objects exist.
func (c *caller) mayMake(ctx context.Context, spec *v1alpha1.TokenSpec, record *bearer.Record) error {
	if scope := c.credential.Scope; scope != nil && scope.Space != key.Space(spec.Space) {
		return forbidden("the credential is for space %q alone, and so must be what is made with it", scope.Space)
	}
	for _, name := range append(slices.Clone(record.Groups), record.User) {
		if auth.IsAgent(name) {
			return forbidden("%q is of agents, which enrol", name)
		}
	}
	for _, group := range record.Groups {
		if s, ok := auth.SpaceOfGroup(group); ok && s != key.Space(spec.Space) {
			return forbidden("group %q is for tokens of its space alone", group)
		}
	}
	if c.authorizer.MayAll(c) || c.isSelf(spec, record) {
		return nil
	}
	if spec.Role != "" && !c.authorizer.MayHandOut(c, key.Space(spec.Space), spec.Role) {
		return forbidden("user %q may not give anybody the role %s in space %q", c.GetName(), spec.Role, spec.Space)
	}
	if spec.Role != "" && spec.User == "" && len(record.Groups) == 0 {
		return nil // it has only this role
	}
	return c.mayMakeFor(ctx, spec, record)
}

// mayMakeFor refuses tokens for users or groups that the caller may not impersonate. A token that
// is its own user belongs to no other user.
func (c *caller) mayMakeFor(ctx context.Context, spec *v1alpha1.TokenSpec, record *bearer.Record) error {
	if !c.mayPath(ctx, "post", route.Tokens) {
		return forbidden("user %q may not make tokens: that is post on the path %s", c.GetName(), route.Tokens)
	}
	if spec.Space != "" && !c.authorizer.MayKnow(c, key.Space(spec.Space)) {
		return forbidden("user %q may neither do anything in space %q nor get it in root", c.GetName(), spec.Space)
	}
	isOwn := spec.User == "" && spec.Space != ""
	for _, one := range append([]string{record.User}, record.Groups...) {
		if auth.IsReserved(one) && !(isOwn && one == record.User) {
			return forbidden("%q is a name that comes from the hub alone", one)
		}
	}
	if !isOwn && !c.mayBe(ctx, "users", record.User) {
		return forbidden("user %q may not impersonate user %q", c.GetName(), record.User)
	}
	for _, group := range record.Groups {
		if !c.mayBe(ctx, "groups", group) {
			return forbidden("user %q may not impersonate group %q", c.GetName(), group)
		}
	}
	return nil
}

// isSelf reports whether the caller creates a token for themselves, with at most their own rights
// and lifetime. An impersonated caller does not.
func (c *caller) isSelf(spec *v1alpha1.TokenSpec, record *bearer.Record) bool {
	original := c.credential.User
	if spec.Role != "" || original == nil || original.GetName() != c.GetName() || record.User != c.GetName() {
		return false
	}
	if until := c.credential.Until; !until.IsZero() && record.Expires.After(until) {
		return false
	}
	if spec.Space != "" && !c.authorizer.MayKnow(c, key.Space(spec.Space)) {
		return false // the caller must not learn whether the space exists
	}
	return !slices.ContainsFunc(record.Groups, func(g string) bool {
		return !slices.Contains(c.GetGroups(), g) || !slices.Contains(original.GetGroups(), g)
	})
}

// reaches reports whether the caller may see and revoke a token: all tokens, if all is true;
// otherwise their own and those of spaces in which they may delegate all rights.
func (c *caller) reaches(r *bearer.Record, all bool) bool {
	if scope := c.credential.Scope; scope != nil && (r.Scope == nil || *r.Scope != *scope) {
		return false
	}
	return all || r.User == c.GetName() || r.Creator == c.GetName() || r.Scope != nil && c.handsOut(*r.Scope)
}

// handsOut reports whether the caller may delegate all rights in the space of a scope, if that
// space still exists. The result is cached.
func (c *caller) handsOut(scope bearer.Scope) bool {
	if may, known := c.hands[scope]; known {
		return may
	}
	now, err := c.scope(scope.Space)
	may := err == nil && *now == scope && c.authorizer.MayHandOut(c, scope.Space, v1alpha1.RoleAdmin)
	if c.hands == nil {
		c.hands = map[bearer.Scope]bool{}
	}
	c.hands[scope] = may
	return may
}

// mayPath reports whether the caller may send a request to a path of the hub.
func (c *caller) mayPath(ctx context.Context, verb, path string) bool {
	return c.may(ctx, authorizer.AttributesRecord{User: c, Verb: verb, Path: path})
}

// mayBe reports whether the caller may impersonate a user or a group.
func (c *caller) mayBe(ctx context.Context, kind, name string) bool {
	return c.may(ctx, authorizer.AttributesRecord{User: c, Verb: "impersonate", APIVersion: "v1", Resource: kind, Name: name, ResourceRequest: true})
}

func (c *caller) may(ctx context.Context, a authorizer.Attributes) bool {
	decision, _, err := c.authorizer.Authorize(ctx, a)
	return err == nil && decision == authorizer.DecisionAllow
}

func forbidden(format string, args ...any) error {
	return apierrors.NewForbidden(resource, "", fmt.Errorf(format, args...))
}
