// Package audit writes who asked the hub for what, and what came of it, in the format of
// Kubernetes and by a policy file of Kubernetes. Every event names its space or location.
//
// It must never write a credential or what is in a Secret, whatever the policy says, and
// never keep a request from being served.
package audit

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/natefinch/lumberjack.v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/plugin/pkg/audit/log"

	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

const (
	// SpaceAnnotation of an event has the name of the space that the request is about.
	SpaceAnnotation = "orrery.dev/space"
	// LocationAnnotation is the same of a location.
	LocationAnnotation = "orrery.dev/location"
)

// Config is how a Log is written.
type Config struct {
	// PolicyFile has the Policy of audit.k8s.io, Path is the file that is written.
	PolicyFile, Path string
	// MaxSize is how large the file becomes before another is begun, in megabytes. Of
	// those before, MaxBackups are kept, for MaxAge days; 0: all, or for ever.
	MaxSize, MaxBackups, MaxAge int
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case (c.PolicyFile == "") != (c.Path == ""):
		return fmt.Errorf("audit policy %q and log %q: want both or none", c.PolicyFile, c.Path)
	case c.MaxSize < 0 || c.MaxBackups < 0 || c.MaxAge < 0:
		return fmt.Errorf("audit log of %d megabytes, %d backups and %d days: want none below 0", c.MaxSize, c.MaxBackups, c.MaxAge)
	}
	return nil
}

// Log writes the audit log. It is safe for concurrent use.
type Log struct {
	file   *lumberjack.Logger
	writer *patient
	sink   audit.Sink
	policy audit.PolicyRuleEvaluator
}

// Open opens the log; nil: there is none. The logger is told of events that can't be
// written. The caller must Close it.
func Open(config Config, logger *slog.Logger) (*Log, error) {
	if config.PolicyFile == "" {
		return nil, nil //nolint:nilnil // there is no log
	}
	rules, err := policy.LoadPolicyFromFile(config.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("load the audit policy: %w", err)
	}
	if err := touch(config.Path); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	file := &lumberjack.Logger{Filename: config.Path, MaxSize: config.MaxSize, MaxBackups: config.MaxBackups, MaxAge: config.MaxAge}
	writer := &patient{to: file, logger: logger}
	return &Log{
		file: file, writer: writer, sink: log.NewBackend(writer, log.FormatJson, auditv1.SchemeGroupVersion),
		policy: withoutSecrets{policy.NewPolicyRuleEvaluator(rules)},
	}, nil
}

// touch makes a file that only its owner reads, unless there is one, and finds out
// whether it can be written.
func touch(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Close closes the file, if there is a log.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

// Lost is how many events could not be written.
func (l *Log) Lost() int64 { return l.writer.count() }

// Admitted logs requests of users who are known, if there is a log.
func (l *Log) Admitted(next http.Handler) http.Handler {
	if l == nil {
		return next
	}
	return named(filters.WithAudit(next, l.sink, l.policy, lasts))
}

// Refused logs requests that are refused since nobody knows who sends them, if there is a
// log.
func (l *Log) Refused(failed http.Handler) http.Handler {
	if l == nil {
		return failed
	}
	return named(filters.WithFailedAuthenticationAudit(failed, l.sink, l.policy))
}

// named annotates the events of requests with what they are about.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch root := auth.RootOf(r.Context()); root.API {
		case route.Spaces, route.Questions:
			audit.AddAuditAnnotation(r.Context(), SpaceAnnotation, root.Name)
			if root.API == route.Questions && strings.HasSuffix(r.URL.Path, "/"+route.Diff) { // which the agent there is asked
				audit.AddAuditAnnotation(r.Context(), LocationAnnotation, r.URL.Query().Get("location"))
			}
		case route.ReportViews:
			if s, l, ok := root.Reported(); ok {
				audit.AddAuditAnnotation(r.Context(), SpaceAnnotation, string(s))
				audit.AddAuditAnnotation(r.Context(), LocationAnnotation, string(l))
			}
		case route.Exports, route.Slices:
			if _, s, ok := root.Shelf(); ok {
				audit.AddAuditAnnotation(r.Context(), SpaceAnnotation, string(s))
			}
		case route.Views, route.Agents:
			audit.AddAuditAnnotation(r.Context(), LocationAnnotation, root.Name)
		}
		next.ServeHTTP(w, r)
	})
}

// lasts says of a request that its answer has no end of its own.
func lasts(r *http.Request, info *request.RequestInfo) bool {
	if info != nil && info.IsResourceRequest {
		return info.Verb == "watch"
	}
	return auth.RootOf(r.Context()).API == route.Agents && strings.HasSuffix(r.URL.Path, "/"+route.Desired)
}

// withoutSecrets keeps the bodies of Secrets, and of what credentials are made by, out of
// the log.
type withoutSecrets struct{ policy audit.PolicyRuleEvaluator }

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator.
func (p withoutSecrets) EvaluatePolicyRule(a authorizer.Attributes) audit.RequestAuditConfig {
	config := p.policy.EvaluatePolicyRule(a)
	if hasSecrets(a) && auditinternal.LevelMetadata.Less(config.Level) {
		config.Level = auditinternal.LevelMetadata
	}
	return config
}

// hasSecrets says of a request that its body or its answer has a Secret or a credential.
func hasSecrets(a authorizer.Attributes) bool {
	if !a.IsResourceRequest() {
		return true // tokens, enrolments, the log itself: none of these is an object
	}
	switch (schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}) {
	case corev1.Resource("secrets"):
		return true
	case schema.GroupResource{Group: key.Locations.Group, Resource: key.Locations.Resource}:
		return a.GetSubresource() == kinds.TokenSubresource
	}
	return false
}
