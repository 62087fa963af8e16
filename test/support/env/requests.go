package env

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/test/support/limit"
)

// AuditEvent is one request that the API server of a cluster has answered.
type AuditEvent struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	// Impersonated is the user in whose name the request was made, if that is another one.
	Impersonated struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	// Object is nil for requests that are not about a resource, such as discovery.
	Object *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

// Write reports whether the request was for a change, successful or not.
func (e AuditEvent) Write() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// Filter selects requests. An empty field matches all.
type Filter struct {
	User string
	// UserAgent is a prefix.
	UserAgent string
	Verbs     []string
	Resource  string
	Namespace string
	Name      string
	// After excludes requests that were received before.
	After time.Time
	// Writes excludes reads.
	Writes bool
}

func (f Filter) matches(e AuditEvent) bool {
	if f.User != "" && f.User != e.User.Username ||
		!strings.HasPrefix(e.UserAgent, f.UserAgent) ||
		len(f.Verbs) > 0 && !slices.Contains(f.Verbs, e.Verb) ||
		e.Received.Before(f.After) ||
		f.Writes && !e.Write() {
		return false
	}
	if f.Resource == "" && f.Namespace == "" && f.Name == "" {
		return true
	}
	return e.Object != nil &&
		(f.Resource == "" || f.Resource == e.Object.Resource) &&
		(f.Namespace == "" || f.Namespace == e.Object.Namespace) &&
		(f.Name == "" || f.Name == e.Object.Name)
}

// Requests returns the requests that match f, in the order of their responses. It includes a watch only
// after its end. A client can receive a response a moment before Requests returns the request.
func (c *Cluster) Requests(t T, f Filter) []AuditEvent {
	t.Helper()
	all, err := c.requests.read(c.AuditLog())
	if err != nil {
		t.Fatalf("read the audit log of cluster %q: %v", c.Name, err)
	}
	var events []AuditEvent
	for _, e := range all {
		if f.matches(e) {
			events = append(events, e)
		}
	}
	return events
}

// AllRequests is Requests after a wait until the audit log has all requests that were answered before the
// call.
func (c *Cluster) AllRequests(t T, f Filter) []AuditEvent {
	t.Helper()
	marker := Filter{User: AdminUser, Verbs: []string{"get"}, Resource: "configmaps", Namespace: metav1.NamespaceDefault, Name: "marker-" + strings.ToLower(rand.Text())}
	Eventually(t, limit.Wait, func() error {
		if len(c.Requests(t, marker)) > 0 {
			return nil
		}
		_, err := c.Client.CoreV1().ConfigMaps(marker.Namespace).Get(t.Context(), marker.Name, metav1.GetOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			err = errors.New("the audit log does not have the request that marks its end")
		}
		return err
	})
	return c.Requests(t, f)
}

// auditEvents has the events of an audit log. Each read decodes only the lines that were appended since
// the last one. It is safe for concurrent use.
type auditEvents struct {
	mu     sync.Mutex
	offset int64 // of the first unread line
	events []AuditEvent
	// since leaves out requests that were received before: they are of earlier tests.
	since time.Time
}

// read reads the appended lines, and returns all events.
func (a *auditEvents) read(file string) ([]AuditEvent, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	log, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	added, err := io.ReadAll(io.NewSectionReader(log, a.offset, math.MaxInt64-a.offset))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(added) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		var e AuditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		a.offset += int64(len(line))
		if !e.Received.Before(a.since) {
			a.events = append(a.events, e)
		}
	}
	return a.events, nil
}
