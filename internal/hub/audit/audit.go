// Package audit writes the audit log: each request to the hub with its user and result, in the
// format and by a policy file of Kubernetes. Each event has its space or location.
//
// It must not write credentials or the contents of Secrets, whatever the policy requests. A failure
// of the log must not keep a request from being served.
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
	// SpaceAnnotation of an event is the name of the space in the request.
	SpaceAnnotation = "orrery.dev/space"
	// LocationAnnotation of an event is the name of the location in the request.
	LocationAnnotation = "orrery.dev/location"
)

// Config configures a Log.
type Config struct {
	// PolicyFile contains a Policy of audit.k8s.io, and Path is the log file.
	PolicyFile, Path string
	// MaxSize is the size in megabytes at which a new file begins. MaxBackups old files are kept
	// for MaxAge days; 0 means all, or without limit.
	MaxSize, MaxBackups, MaxAge int
}

// Validate returns an error if the configuration is invalid.
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

// Open opens the log; it returns nil if no log is configured. The logger logs events that can't be
// written. The caller must call Close.
func Open(config Config, logger *slog.Logger) (*Log, error) {
	if config.PolicyFile == "" {
		return nil, nil //nolint:nilnil // no log is configured
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

// touch creates a file that only its owner can read, unless it exists, and returns an error if it
// can't be written.
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

// Lost returns the number of events that could not be written.
func (l *Log) Lost() int64 { return l.writer.count() }

// Admitted logs requests of authenticated users, if there is a log.
func (l *Log) Admitted(next http.Handler) http.Handler {
	if l == nil {
		return next
	}
	return named(filters.WithAudit(next, l.sink, l.policy, lasts))
}

// Refused logs requests that fail authentication, if there is a log.
func (l *Log) Refused(failed http.Handler) http.Handler {
	if l == nil {
		return failed
	}
	return named(filters.WithFailedAuthenticationAudit(failed, l.sink, l.policy))
}

// named annotates the events of requests with space and location.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch root := auth.RootOf(r.Context()); root.API {
		case route.Spaces, route.Queries:
			audit.AddAuditAnnotation(r.Context(), SpaceAnnotation, root.Name)
			if root.API == route.Queries && strings.HasSuffix(r.URL.Path, "/"+route.Diff) { // the agent of the location receives the request
				audit.AddAuditAnnotation(r.Context(), LocationAnnotation, r.URL.Query().Get("location"))
			}
		case route.ReportViews:
			if s, l, ok := root.Reported(); ok {
				audit.AddAuditAnnotation(r.Context(), SpaceAnnotation, string(s))
				audit.AddAuditAnnotation(r.Context(), LocationAnnotation, string(l))
			}
		case route.Exports, route.Slices:
			if _, s, ok := root.ExportView(); ok {
				audit.AddAuditAnnotation(r.Context(), SpaceAnnotation, string(s))
			}
		case route.Views, route.Agents:
			audit.AddAuditAnnotation(r.Context(), LocationAnnotation, root.Name)
		}
		next.ServeHTTP(w, r)
	})
}

// lasts reports whether the response to a request continues without an end.
func lasts(r *http.Request, info *request.RequestInfo) bool {
	if info != nil && info.IsResourceRequest {
		return info.Verb == "watch"
	}
	return auth.RootOf(r.Context()).API == route.Agents && strings.HasSuffix(r.URL.Path, "/"+route.Desired)
}

// withoutSecrets keeps the bodies of Secrets and credential requests out of the log.
type withoutSecrets struct{ policy audit.PolicyRuleEvaluator }

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator.
func (p withoutSecrets) EvaluatePolicyRule(a authorizer.Attributes) audit.RequestAuditConfig {
	config := p.policy.EvaluatePolicyRule(a)
	if hasSecrets(a) && auditinternal.LevelMetadata.Less(config.Level) {
		config.Level = auditinternal.LevelMetadata
	}
	return config
}

// hasSecrets reports whether the body or response of a request contains a Secret or credential.
func hasSecrets(a authorizer.Attributes) bool {
	if !a.IsResourceRequest() {
		return true // tokens, enrolments, and the log itself are not objects
	}
	switch (schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}) {
	case corev1.Resource("secrets"):
		return true
	case schema.GroupResource{Group: key.Locations.Group, Resource: key.Locations.Resource}:
		return a.GetSubresource() == kinds.TokenSubresource
	}
	return false
}
