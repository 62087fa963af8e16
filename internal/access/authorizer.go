package access

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/route"
)

// Authorizer decides who may do what at the root in the context: members of
// system:masters may do everything, an agent what concerns its own location.
type Authorizer struct{}

var (
	_ authorizer.Authorizer   = Authorizer{}
	_ authorizer.RuleResolver = Authorizer{}
)

// impersonate is the prefix of all verbs of impersonation.
const impersonate = "impersonate"

// reads are the verbs that change nothing.
var reads = []string{"get", "list", "watch"}

// Authorize implements authorizer.Authorizer.
func (Authorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	who := a.GetUser()
	if who == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	l, ok := locationOf(who)
	if !ok || strings.HasPrefix(a.GetVerb(), impersonate) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	switch RootOf(ctx) {
	case route.Agent(l):
		if !a.IsResourceRequest() {
			return authorizer.DecisionAllow, "", nil
		}
	case route.View(l):
		if slices.Contains(reads, a.GetVerb()) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// RulesFor implements authorizer.RuleResolver: what a user may do at the root.
func (z Authorizer) RulesFor(ctx context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	verbs, all := []string{"*"}, []string{"*"}
	if !z.may(ctx, who, "*", namespace) {
		verbs = reads
		if !slices.ContainsFunc(reads, func(verb string) bool { return z.may(ctx, who, verb, namespace) }) {
			return nil, nil, false, nil
		}
	}
	if RootOf(ctx) == route.Space(key.AllSpaces) {
		verbs = reads
	}
	return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: verbs, APIGroups: all, Resources: all}},
		[]authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: verbs, NonResourceURLs: all}}, false, nil
}

func (z Authorizer) may(ctx context.Context, who user.Info, verb, namespace string) bool {
	decision, _, err := z.Authorize(ctx, authorizer.AttributesRecord{
		User: who, Verb: verb, Namespace: namespace, APIGroup: "*", APIVersion: "*", Resource: "*", ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}
