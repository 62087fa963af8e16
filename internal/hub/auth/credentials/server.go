// Package credentials serves the APIs that issue credentials. At /admin/v1/tokens, users create,
// list and revoke tokens and short-lived certificates. At a subresource of a Location, operators
// get the join token of an agent.
//
// The API server's filters let every authenticated request for tokens pass. This package decides,
// token by token and with the hub's authorizer, which tokens a user may create, see and revoke. It
// must never store a secret, nor show it to other users than its creator.
package credentials

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/auth/bearer"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// maxBody bounds the size of a request, in bytes.
const maxBody = 64 << 10

// Config contains the dependencies of a Server.
type Config struct {
	// Table is the source of reads, and Log the target of writes.
	Table *table.Table
	Log   *etcd.Log
	// Authority signs certificates.
	Authority *enroll.Authority
	// Authorizer decides about rights.
	Authorizer *auth.Authorizer
	// Committed waits until the table contains all writes that were acknowledged before the call.
	Committed func(context.Context) error
	// Now is the clock.
	Now func() time.Time
}

// Server serves route.Tokens and the paths below. It is safe for concurrent use.
type Server struct{ config Config }

// New returns a Server.
func New(config Config) *Server { return &Server{config} }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, ok := route.Token(r.URL.Path)
	if !ok {
		respond.Error(w, r, respond.NotFound(r.URL.Path))
		return
	}
	answer, err := s.answer(r, id)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	respond.JSON(w, answer)
}

func (s *Server) answer(r *http.Request, id string) (any, error) {
	who, ok := request.UserFrom(r.Context())
	if !ok {
		return nil, apierrors.NewUnauthorized("the request has no user")
	}
	if err := s.config.Committed(r.Context()); err != nil {
		return nil, err
	}
	c := caller{Info: who, credential: auth.CredentialOf(r.Context()), authorizer: s.config.Authorizer, scope: s.scope}
	switch {
	case r.Method == http.MethodPost && id == "":
		return s.create(r, &c)
	case r.Method == http.MethodGet && id == "":
		return s.list(r.Context(), &c), nil
	case r.Method == http.MethodGet:
		return s.get(r.Context(), &c, id, "get")
	case r.Method == http.MethodDelete && id != "":
		return s.revoke(r.Context(), &c, id)
	}
	return nil, respond.Unrouted(http.StatusMethodNotAllowed)
}

// create creates a token or a certificate. A dry run returns none, since a token that is not stored
// is not valid.
func (s *Server) create(r *http.Request, c *caller) (any, error) {
	body, err := requestbody.ReadYAML(r, requestbody.Limits{Bytes: maxBody})
	if err != nil {
		return nil, respond.BadBody(err, "read the body")
	}
	var posted v1alpha1.Token
	if err := yaml.UnmarshalStrict(body, &posted); err != nil {
		return nil, respond.BadRequest("decode the body: %v", err)
	}
	options := metav1.CreateOptions{DryRun: r.URL.Query()["dryRun"]}
	if problems := validation.ValidateCreateOptions(&options); len(problems) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("CreateOptions").GroupKind(), "", problems)
	}
	id := bearer.NewID()
	record, err := s.order(r.Context(), c, id, &posted.Spec)
	if err != nil {
		return nil, err
	}
	if len(options.DryRun) > 0 {
		return shown(id, 0, &record), nil
	}
	if posted.Spec.Request != "" {
		return s.certify(posted.Spec.Request, id, &record)
	}
	if err := s.hasRoom(c, &record); err != nil {
		return nil, err
	}
	text, value, err := bearer.New(id, record)
	if err != nil {
		return nil, err
	}
	rev, ok, err := s.config.Log.Put(r.Context(), key.Token(id), value, 0)
	if err == nil && !ok {
		err = fmt.Errorf("there is a token %q; try again", id)
	}
	if err != nil {
		return nil, err
	}
	if err := s.config.Table.WaitFor(r.Context(), rev); err != nil { // it must be valid at once
		return nil, err
	}
	made := shown(id, rev, &record)
	made.Status.Token = text
	return made, nil
}

// certify issues a certificate.
func (s *Server) certify(request, id string, record *bearer.Record) (any, error) {
	certificate, err := s.config.Authority.Person([]byte(request), record.User, record.Groups, record.Scope, record.Expires.Sub(record.Created))
	if err != nil {
		return nil, respond.BadRequest("%v", err)
	}
	made := shown(id, 0, record)
	made.Status.Certificate = string(certificate)
	return made, nil
}

const (
	// maxTokens bounds the tokens of a hub. maxEach bounds those of one space, and those created by
	// one user without all rights, see maxMade.
	maxTokens = 10000
	maxEach   = 500
	// forAll of them are reserved for users with all rights.
	forAll = 500
)

// hasRoom refuses a token if there are too many. Expired tokens count until they are deleted.
func (s *Server) hasRoom(c *caller, record *bearer.Record) error {
	all, ofSpace, ofMaker := 0, 0, 0
	s.each(func(_ string, _ *table.Row, other *bearer.Record) {
		all++
		if record.Scope != nil && other.Scope != nil && *other.Scope == *record.Scope {
			ofSpace++
		}
		if other.Creator == record.Creator {
			ofMaker++
		}
	})
	switch {
	case all >= maxTokens, all >= maxTokens-forAll && !c.authorizer.MayAll(c):
		return tooMany("the hub has %d tokens", all)
	case ofSpace >= maxEach:
		return tooMany("space %q has %d tokens", record.Scope.Space, ofSpace)
	case ofMaker >= maxMade(all) && !c.authorizer.MayAll(c):
		return tooMany("user %q has made %d tokens, of %d that the hub has", record.Creator, ofMaker, all)
	}
	return nil
}

// maxMade returns how many tokens one user without all rights may have created, if there are all
// tokens in total. It is at most maxEach, and falls with the number of free tokens, so that a group
// of users cannot use up all of them. It is at least 1 while any are free.
func maxMade(all int) int {
	const others = maxTokens - forAll
	free := max(others-all, 0)
	return min(maxEach, (maxEach*free+others-maxEach-1)/(others-maxEach))
}

func tooMany(format string, args ...any) error {
	return apierrors.NewForbidden(resource, "", fmt.Errorf(format+"; revoke some that are not needed", args...))
}

// resource names tokens in errors.
var resource = schema.GroupResource{Group: v1alpha1.Group, Resource: "tokens"}

// each calls fn for all tokens.
func (s *Server) each(fn func(id string, row *table.Row, record *bearer.Record)) {
	s.config.Table.Snapshot().Ascend(key.Tokens.Prefix(), func(row *table.Row) bool {
		id, _ := key.TokenOf(row.Key)
		if record, err := bearer.Read(row.Value); err == nil {
			fn(id, row, &record)
		}
		return true
	})
}

// list returns the tokens that the caller may see, the oldest first.
func (s *Server) list(ctx context.Context, c *caller) any {
	items := []v1alpha1.Token{}
	seesAll := c.mayPath(ctx, "get", route.Tokens)
	s.each(func(id string, row *table.Row, record *bearer.Record) {
		if c.reaches(record, seesAll) {
			items = append(items, shown(id, row.ModRev, record))
		}
	})
	slices.SortStableFunc(items, func(a, b v1alpha1.Token) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return v1alpha1.TokenList{TypeMeta: typeMeta("TokenList"), Items: items}
}

// get returns a token if the caller may use the verb on it. For other tokens, the error does not
// depend on whether they exist.
func (s *Server) get(ctx context.Context, c *caller, id, verb string) (v1alpha1.Token, error) {
	row, _ := s.config.Table.Get(key.Token(id))
	if row != nil {
		if record, err := bearer.Read(row.Value); err == nil && c.reaches(&record, c.mayPath(ctx, verb, route.Tokens+"/"+id)) {
			return shown(id, row.ModRev, &record), nil
		}
	}
	return v1alpha1.Token{}, apierrors.NewNotFound(resource, id)
}

// revoke deletes a token. Tokens that were created with it become invalid, too.
func (s *Server) revoke(ctx context.Context, c *caller, id string) (any, error) {
	gone, err := s.get(ctx, c, id, "delete")
	if err != nil {
		return nil, err
	}
	rev, err := s.config.Log.Write(ctx, []etcd.Op{{Key: key.Token(id)}})
	if err != nil {
		return nil, err
	}
	return gone, s.config.Table.WaitFor(ctx, rev) // it must be invalid at once
}

// shown returns a token as the API shows it.
func shown(id string, rev int64, r *bearer.Record) v1alpha1.Token {
	t := v1alpha1.Token{TypeMeta: typeMeta("Token"), ObjectMeta: metav1.ObjectMeta{Name: id, CreationTimestamp: metav1.NewTime(r.Created)}}
	if rev > 0 {
		t.ResourceVersion = fmt.Sprint(rev)
	}
	seconds := int64(r.Expires.Sub(r.Created).Seconds())
	t.Spec = v1alpha1.TokenSpec{Description: r.Description, Role: v1alpha1.RoleName(r.Role), ExpirationSeconds: &seconds}
	if r.Scope != nil {
		t.Spec.Space = string(r.Scope.Space)
	}
	t.Status = v1alpha1.TokenStatus{User: r.User, Groups: r.Groups, ExpirationTimestamp: metav1.NewTime(r.Expires), Creator: r.Creator, From: r.From}
	return t
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}
}

var _ http.Handler = (*Server)(nil)
