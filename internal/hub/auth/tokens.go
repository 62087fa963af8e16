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
	// TokenUser is how the names of users begin that are tokens' own.
	TokenUser = "orrery:token:"
	// MaxFrom is how many tokens a token may be made from, one by the other.
	MaxFrom = 4
)

// errUnknown does not tell a token that was never there from one that was revoked, nor
// from one with another secret.
const errUnknown toldError = "the token is unknown to this hub: it was revoked, has expired long ago, or is of another hub"

// tokens authenticates people and programs by the hashed tokens in the log. Nothing is
// cached: to look one up and hash it takes less than the request's headers do.
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
	if errors.Is(err, errUnknown) { // it may have been made just now, by another hub
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
	showing(ctx, func(c *Credential) { c.Token, c.Until = id, r.Expires })
	return &authenticator.Response{User: &user.DefaultInfo{
		Name: r.User, Groups: r.Groups, Extra: map[string][]string{user.CredentialIDKey: {"ORRERY-TOKEN=" + id}},
	}}, true, nil
}

// find finds a token, which rests on those that it was made from.
func (a tokens) find(ctx context.Context, id, secret string) (found bearer.Record, err error) {
	var premises []table.Premise
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
		premises = append(premises, table.Premise{Key: row.Key, Holds: func(now *table.Row) bool { return now != nil && now.ModRev == row.ModRev }})
		id = r.From
	}
	for _, p := range premises {
		restOn(ctx, p)
	}
	return found, nil
}

// RoleGroup is the group whose members have a role in a space.
func RoleGroup(s key.Space, r v1alpha1.RoleName) string {
	return spaceGroup + string(s) + ":" + string(r)
}

// MayHandOut says whether somebody may give others a role in a space: whether they could
// write a Grant of it there.
func (z *Authorizer) MayHandOut(who user.Info, s key.Space, r v1alpha1.RoleName) bool {
	if z.mayAll(who) {
		return true
	}
	w := writer{Authorizer: z, who: who, space: s}
	return w.may("create", key.Grants.Resource, "") &&
		(w.may("escalate", key.Grants.Resource, "") || w.may("bind", rolesResource, string(r)) || z.heldIn(s, who).holds(r, ""))
}

// MayKnow says whether somebody may know whether a space is there: they have any right in
// it, or may get it in root.
func (z *Authorizer) MayKnow(who user.Info, s key.Space) bool {
	if z.mayAll(who) {
		return true
	}
	_, ok := z.enters(s, who)
	if !ok {
		get := about("get", key.Spaces.Group, key.Spaces.Resource, "", "", string(s))
		_, ok = z.inSpace(key.Root, who, &get)
	}
	return ok
}

// MayAll says whether somebody may do everything.
func (z *Authorizer) MayAll(who user.Info) bool { return z.mayAll(who) }

// IsAgent says whether a name is of an agent, or of all of them. Only an enrolment gives
// those.
func IsAgent(name string) bool {
	return strings.HasPrefix(name, enroll.UserPrefix) || name == enroll.Agents
}

// IsReserved says whether a name of a user or a group comes from the hub alone.
func IsReserved(name string) bool {
	return slices.ContainsFunc([]string{"system:", "orrery:"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// SpaceOfGroup is the space that a group gives a role in.
func SpaceOfGroup(group string) (key.Space, bool) {
	rest, ok := strings.CutPrefix(group, spaceGroup)
	name, _, _ := strings.Cut(rest, ":")
	return key.Space(name), ok
}
