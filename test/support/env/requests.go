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

// Write reports whether the request asked for a change, be it granted or not.
func (e AuditEvent) Write() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// Filter says which requests to return; an empty field lets all pass.
type Filter struct {
	User string
	// UserAgent is a prefix.
	UserAgent string
	Verbs     []string
	Resource  string
	Namespace string
	Name      string
	// After leaves out what was received before.
	After time.Time
	// Writes leaves out what only reads.
	Writes bool
}

func (f Filter) lets(e AuditEvent) bool {
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

// Requests returns the requests that f lets pass, in the order in which they were
// answered. A watch is among them only once it has ended, and an answer can
// arrive at the client a moment before its request is here.
func (c *Cluster) Requests(t T, f Filter) []AuditEvent {
	t.Helper()
	all, err := c.requests.read(c.AuditLog())
	if err != nil {
		t.Fatalf("read the audit log of cluster %q: %v", c.Name, err)
	}
	var events []AuditEvent
	for _, e := range all {
		if f.lets(e) {
			events = append(events, e)
		}
	}
	return events
}

// AllRequests is Requests once the audit log has caught up: it has a request that was answered
// after all that the test knows of.
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

// auditEvents are those of an audit log, which only grows: who asks again and again
// has what is new read and decoded, not all of it. It is safe for concurrent use.
type auditEvents struct {
	mu     sync.Mutex
	offset int64 // of the first line that was not read
	events []AuditEvent
	// since leaves out requests that were received before: they are of earlier tests.
	since time.Time
}

// read reads on, and returns all events.
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
