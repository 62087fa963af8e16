package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth/bearer"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// TokenUser is the prefix of the users that belong to tokens.
	TokenUser = "orrery:token:"
	// MaxFrom is the maximum length of a chain of tokens that were created with each other.
	MaxFrom = 4
)

// errUnknown is the same for a token that never existed, one that was revoked, and one with another
// secret.
const errUnknown toldError = "the token is unknown to this hub: it was revoked, has expired long ago, or is of another hub"

// tokens authenticates users and programs by the hashed tokens in the log. Nothing is cached, since
// a lookup and a hash are cheap.
type tokens struct {
	table *table.Table
	fresh *fresh
	now   func() time.Time
}

// AuthenticateToken implements authenticator.Token.
func (a tokens) AuthenticateToken(ctx context.Context, text string) (*authenticator.Response, bool, error) {
	id, secret, ok := bearer.Parse(text)
	if !ok {
		return nil, false, nil
	}
	r, err := a.find(ctx, id, secret)
	if errors.Is(err, errUnknown) { // another hub may have created it just now
		if err := a.fresh.wait(ctx); err != nil {
			return nil, false, err
		}
		r, err = a.find(ctx, id, secret)
	}
	if err != nil {
		return nil, false, err
	}
	if !r.Expires.After(a.now()) {
		return nil, false, toldError(fmt.Sprintf("the token %s expired at %s", id, r.Expires.UTC().Format(time.RFC3339)))
	}
	if err := limit(ctx, a.table, r.Scope); err != nil {
		return nil, false, err
	}
	recordCredential(ctx, func(c *Credential) { c.Token, c.Until = id, r.Expires })
	return &authenticator.Response{User: &user.DefaultInfo{
		Name: r.User, Groups: r.Groups, Extra: map[string][]string{user.CredentialIDKey: {"ORRERY-TOKEN=" + id}},
	}}, true, nil
}

// find finds a token. The request's streams depend on it and on the tokens that it was created
// from.
func (a tokens) find(ctx context.Context, id, secret string) (found bearer.Record, err error) {
	var conditions []table.Condition
	for depth := 0; id != ""; depth++ {
		row, _ := a.table.Get(key.Token(id))
		if row == nil || depth > MaxFrom {
			return found, errUnknown
		}
		r, err := bearer.Read(row.Value)
		if err != nil {
			return found, err
		}
		if depth == 0 {
			if found = r; !r.Matches(secret) {
				return found, errUnknown
			}
		}
		conditions = append(conditions, table.Condition{Key: row.Key, IsMet: func(now *table.Row) bool { return now != nil && now.ModRev == row.ModRev }})
		id = r.From
	}
	for _, p := range conditions {
		restOn(ctx, p)
	}
	return found, nil
}

// RoleGroup returns the group whose members have a role in a space.
func RoleGroup(s key.Space, r v1alpha1.RoleName) string {
	return spaceGroup + string(s) + ":" + string(r)
}

// MayHandOut reports whether a user may give others a role in a space: whether the user could write
// a Grant of it there.
func (z *Authorizer) MayHandOut(who user.Info, s key.Space, r v1alpha1.RoleName) bool {
	if z.mayAll(who) {
		return true
	}
	w := writer{Authorizer: z, who: who, space: s}
	return w.may("create", key.Grants.Resource, "") &&
		(w.may("escalate", key.Grants.Resource, "") || w.may("bind", rolesResource, string(r)) || z.heldIn(s, who).includesRole(r, ""))
}

// MayKnow reports whether a user may know whether a space exists: the user has any right in it, or
// may get it in root.
func (z *Authorizer) MayKnow(who user.Info, s key.Space) bool {
	if z.mayAll(who) {
		return true
	}
	_, ok := z.enters(s, who)
	if !ok {
		get := newQuestion("get", key.Spaces.Group, key.Spaces.Resource, "", "", string(s))
		_, ok = z.inSpace(key.Root, who, &get)
	}
	return ok
}

// MayAll reports whether a user has all rights.
func (z *Authorizer) MayAll(who user.Info) bool { return z.mayAll(who) }

// IsAgent reports whether a name belongs to an agent, or to the group of agents. Only an enrolment
// gives such names.
func IsAgent(name string) bool {
	return strings.HasPrefix(name, enroll.UserPrefix) || name == enroll.Agents
}

// IsReserved reports whether only the hub itself assigns a name of a user or group.
func IsReserved(name string) bool {
	return slices.ContainsFunc([]string{"system:", "orrery:"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// SpaceOfGroup returns the space in which a group gives a role.
func SpaceOfGroup(group string) (key.Space, bool) {
	rest, ok := strings.CutPrefix(group, spaceGroup)
	name, _, _ := strings.Cut(rest, ":")
	return key.Space(name), ok
}
