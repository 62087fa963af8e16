package auth

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// reviewer answers reviews of clients about themselves: their user, and their rights at an API
// root. It uses the hub's own authorizer; RBAC objects in a space give no rights.
type reviewer struct {
	kind       *kinds.Kind
	catalog    *kinds.Catalog
	authorizer *Authorizer
	// allowed is Config.Allowed.
	allowed Allowed
}

var _ interface {
	rest.Creater
	rest.Scoper
} = &reviewer{}

// ReviewHandler serves reviews of a kind, by the authorizer and the catalog.
func (g *Guard) ReviewHandler(catalog *kinds.Catalog, kind *kinds.Kind) http.HandlerFunc {
	scope := kind.Scope("")
	scope.TableConvertor = nil // as in Kubernetes, a review has no table
	scope.Serializer = requestbody.Serializer{NegotiatedSerializer: scope.Serializer}
	create := handlers.CreateResource(&reviewer{kind, catalog, g.authorizer, g.config.Allowed}, scope, nil)
	return func(w http.ResponseWriter, r *http.Request) {
		if err := requestbody.Object(r, scope.MaxRequestBodyBytes); err != nil {
			respond.Error(w, r, err)
			return
		}
		create(w, r)
	}
}

// New returns an empty review.
func (r *reviewer) New() runtime.Object { return r.kind.New() }

// Destroy does nothing.
func (r *reviewer) Destroy() {}

// NamespaceScoped returns false: reviews are cluster-scoped.
func (r *reviewer) NamespaceScoped() bool { return false }

// Create answers a review.
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
		var err error
		if review.Status, err = r.decide(ctx, who, &review.Spec); err != nil {
			return nil, err
		}
	case *authorizationv1.SelfSubjectRulesReview:
		if review.Spec.Namespace == "" {
			return nil, apierrors.NewBadRequest("no namespace on request")
		}
		review.Status = r.rules(ctx, who, review.Spec.Namespace)
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
	path := field.NewPath("spec")
	switch {
	case spec.ResourceAttributes != nil && spec.NonResourceAttributes != nil:
		return field.ErrorList{field.Invalid(path.Child("nonResourceAttributes"), spec.NonResourceAttributes,
			"cannot be specified in combination with resourceAttributes")}
	case spec.ResourceAttributes == nil && spec.NonResourceAttributes == nil:
		return field.ErrorList{field.Invalid(path.Child("resourceAttributes"), spec.NonResourceAttributes,
			"exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return nil
}

// decide calls the authorizer, and then checks by the catalog whether the verb is served.
func (r *reviewer) decide(ctx context.Context, who user.Info, spec *authorizationv1.SelfSubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	decision, reason, err := r.authorizer.Authorize(ctx, attributesOf(who, spec))
	if err != nil {
		return statusOf(false, ""), fmt.Errorf("decide about %q: %w", who.GetName(), err)
	}
	a := spec.ResourceAttributes
	if n := spec.NonResourceAttributes; n != nil && !isBasic(&question{verb: n.Verb, path: n.Path, isPath: true}) {
		// All other paths belong to the hub itself.
		if why, is := outsideOf(CredentialOf(ctx).Scope, route.Root{}, n.Path); is {
			return statusOf(false, why), nil
		}
	}
	if decision == authorizer.DecisionAllow && a != nil && !r.offered(RootOf(ctx), key.NewResource(a.Group, a.Resource), a.Verb) {
		return statusOf(false, fmt.Sprintf("%s of %s is neither exported nor claimed here", a.Verb, a.Resource)), nil
	}
	if decision != authorizer.DecisionAllow || a == nil || slices.Contains(reads, a.Verb) {
		return statusOf(decision == authorizer.DecisionAllow, reason), nil
	}
	if RootOf(ctx) == route.Space(key.AllSpaces) {
		return statusOf(false, "all spaces at once can only be read"), nil
	}
	kind, ok := r.catalog.Lookup(schema.GroupVersionResource{Group: a.Group, Version: a.Version, Resource: a.Resource})
	if !ok {
		kind, ok = r.catalog.ForStorage(key.NewResource(a.Group, a.Resource))
	}
	if ok && r.catalog.Access(kind) == kinds.ReadOnly {
		return statusOf(false, kind.GVR.Resource+" can only be read here"), nil
	}
	return statusOf(true, reason), nil
}

// offered reports whether a resource is exported or the verb is claimed, in export views.
func (r *reviewer) offered(root route.Root, resource key.Resource, verb string) bool {
	f, s, ok := root.ExportView()
	if r.allowed == nil || !ok || resource.Group == "authentication.k8s.io" || resource.Group == "authorization.k8s.io" {
		return true
	}
	return r.allowed(f, s, resource, verb)
}

// attributesOf returns the attributes of the reviewed request.
func attributesOf(who user.Info, spec *authorizationv1.SelfSubjectAccessReviewSpec) authorizer.Attributes {
	if a := spec.NonResourceAttributes; a != nil {
		return authorizer.AttributesRecord{User: who, Verb: a.Verb, Path: a.Path}
	}
	a := spec.ResourceAttributes
	return authorizer.AttributesRecord{
		User: who, Verb: a.Verb, Namespace: a.Namespace, APIGroup: a.Group, APIVersion: a.Version,
		Resource: a.Resource, Subresource: a.Subresource, Name: a.Name, ResourceRequest: true,
	}
}

func statusOf(may bool, why string) authorizationv1.SubjectAccessReviewStatus {
	return authorizationv1.SubjectAccessReviewStatus{Allowed: may, Reason: why}
}

// rules returns all rules of a user at the root.
func (r *reviewer) rules(ctx context.Context, who user.Info, namespace string) authorizationv1.SubjectRulesReviewStatus {
	root := RootOf(ctx)
	status := r.authorizer.rulesFor(root, r.catalog, who, namespace)
	if root.API == route.Exports || root.API == route.Slices {
		status = r.rulesInExportView(root, who)
	}
	if status.ResourceRules == nil {
		status.ResourceRules = []authorizationv1.ResourceRule{}
	}
	if status.NonResourceRules == nil {
		status.NonResourceRules = []authorizationv1.NonResourceRule{}
	}
	return status
}
