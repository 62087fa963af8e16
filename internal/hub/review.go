package hub

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds"
	"orrery.dev/orrery/internal/view"
)

// reviewer answers what clients ask about themselves: who they are and what
// they may do below one API root. It says what the hub's own rules say; RBAC
// objects in a space grant nothing.
type reviewer struct {
	kind    *kinds.Kind
	catalog *kinds.Catalog
	root    string // path
}

var _ interface {
	rest.Creater
	rest.Scoper
} = &reviewer{}

func reviewHandler(lens view.Lens, catalog *kinds.Catalog, kind *kinds.Kind) http.HandlerFunc {
	scope := kind.Scope("")
	scope.TableConvertor = nil // as in Kubernetes, an answer is no row of a table
	return handlers.CreateResource(&reviewer{kind, catalog, lens.String()}, scope, nil)
}

// New is an empty question.
func (r *reviewer) New() runtime.Object { return r.kind.New() }

// Destroy has nothing to clean up.
func (r *reviewer) Destroy() {}

// NamespaceScoped says that questions are in no namespace.
func (r *reviewer) NamespaceScoped() bool { return false }

// Create answers a question.
func (r *reviewer) Create(ctx context.Context, object runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	if validate != nil {
		if err := validate(ctx, object.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	switch review := object.(type) {
	case *authenticationv1.SelfSubjectReview:
		review.Status.UserInfo = userInfo(who)
	case *authorizationv1.SelfSubjectAccessReview:
		if problems := problemsOf(&review.Spec); len(problems) > 0 {
			return nil, apierrors.NewInvalid(r.kind.GVK.GroupKind(), "", problems)
		}
		review.Status = r.decide(who, &review.Spec)
	case *authorizationv1.SelfSubjectRulesReview:
		if review.Spec.Namespace == "" {
			return nil, apierrors.NewBadRequest("no namespace on request")
		}
		review.Status = r.rules(who)
	default:
		return nil, fmt.Errorf("no answer to a %T", object)
	}
	return object, nil
}

func userInfo(u user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	for name, values := range u.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[name] = values
	}
	return info
}

func problemsOf(spec *authorizationv1.SelfSubjectAccessReviewSpec) field.ErrorList {
	at := field.NewPath("spec")
	switch {
	case spec.ResourceAttributes != nil && spec.NonResourceAttributes != nil:
		return field.ErrorList{field.Invalid(at.Child("nonResourceAttributes"), spec.NonResourceAttributes,
			"cannot be specified in combination with resourceAttributes")}
	case spec.ResourceAttributes == nil && spec.NonResourceAttributes == nil:
		return field.ErrorList{field.Invalid(at.Child("resourceAttributes"), spec.NonResourceAttributes,
			"exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return nil
}

// decide puts the request that is asked about to the hub's rules, and then asks
// whether it is served at all.
func (r *reviewer) decide(who user.Info, spec *authorizationv1.SelfSubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	if a := spec.NonResourceAttributes; a != nil {
		return statusOf(allowed(who, methodOf(a.Verb), r.root+"/"+strings.TrimPrefix(a.Path, "/")), "")
	}
	a := spec.ResourceAttributes
	if !allowed(who, methodOf(a.Verb), r.root+pathOf(a)) {
		return statusOf(false, "")
	}
	if r.root == view.AllSpaces().String() && methodOf(a.Verb) != http.MethodGet {
		return statusOf(false, "all spaces at once can only be read")
	}
	kind, ok := r.catalog.Lookup(schema.GroupVersionResource{Group: a.Group, Version: a.Version, Resource: a.Resource})
	if !ok {
		kind, ok = r.catalog.ForStorage(key.NewResource(a.Group, a.Resource))
	}
	if ok && r.catalog.Access(kind) == kinds.ReadOnly && methodOf(a.Verb) != http.MethodGet {
		return statusOf(false, kind.GVR.Resource+" can only be read here")
	}
	return statusOf(true, "")
}

func statusOf(may bool, why string) authorizationv1.SubjectAccessReviewStatus {
	return authorizationv1.SubjectAccessReviewStatus{Allowed: may, Reason: why}
}

// methodOf is the method of the requests of a verb. A verb that is none is a
// method that no rule names.
func methodOf(verb string) string {
	switch verb {
	case "get", "list", "watch":
		return http.MethodGet
	case "create":
		return http.MethodPost
	case "update":
		return http.MethodPut
	case "patch":
		return http.MethodPatch
	case "delete", "deletecollection":
		return http.MethodDelete
	}
	return strings.ToUpper(verb)
}

// pathOf is the path of a request for a resource, below the root of its API.
func pathOf(a *authorizationv1.ResourceAttributes) string {
	var path strings.Builder
	for _, s := range []string{"apis", a.Group, a.Version, "namespaces", a.Namespace, a.Resource, a.Name, a.Subresource} {
		switch {
		case s == "" || s == "namespaces" && a.Namespace == "":
		case s == "apis" && a.Group == "":
			path.WriteString("/api")
		default:
			path.WriteString("/" + s)
		}
	}
	return path.String()
}

// rules are all that a user may do below the root: everything that is served
// there, or nothing.
func (r *reviewer) rules(who user.Info) authorizationv1.SubjectRulesReviewStatus {
	all := []string{"*"}
	status := authorizationv1.SubjectRulesReviewStatus{ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{}}
	verbs := all
	if r.root == view.AllSpaces().String() {
		verbs = []string{"get", "list", "watch"}
	}
	if allowed(who, http.MethodPost, r.root+"/") {
		status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{Verbs: verbs, APIGroups: all, Resources: all})
		status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: verbs, NonResourceURLs: all})
	}
	return status
}
