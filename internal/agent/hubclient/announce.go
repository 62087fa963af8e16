package hubclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// announceEvery is the interval at which the announcer checks for a change, and the minimum
// time between two announcements of a session.
const announceEvery = time.Second

// apisDigest is the length of the digest of all APIs, in hexadecimal digits.
const apisDigest = 16

// Cluster is the agent's cluster.
type Cluster interface {
	// Version returns its Kubernetes version.
	Version(ctx context.Context) (string, error)
	// APIs returns the groups and versions that it serves.
	APIs(ctx context.Context) ([]wire.API, error)
}

// Announcer sends the agent's status to the hub, at the start of each session and when
// it has changed.
type Announcer struct {
	Link
	cluster Cluster
	// compose returns the status without the cluster's version and APIs, which the announcer
	// adds.
	compose func() (wire.AgentStatus, error)
	// served receives when the kinds that the cluster serves may have changed, began when a
	// session has begun.
	served <-chan struct{}
	began  retry.Signal

	kubernetes string
	apis       []wire.API
	apisDigest string
}

// NewAnnouncer returns an announcer of the status that compose returns. It adds the cluster's
// version and APIs, which it requests at the start of each session and when served receives.
func NewAnnouncer(l Link, c Cluster, compose func() (wire.AgentStatus, error), served <-chan struct{}) *Announcer {
	return &Announcer{Link: l, cluster: c, compose: compose, served: served, began: retry.NewSignal()}
}

// SessionBegan makes the announcer send the status at once. It does not block.
func (a *Announcer) SessionBegan() { a.began.Raise() }

// Run announces until ctx ends.
func (a *Announcer) Run(ctx context.Context) {
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	var failures uint8
	var last []byte
	for in := 0; ; {
		select {
		case <-tick.C:
		case <-a.began:
		case <-ctx.Done():
			return
		}
		now := a.State.session()
		if now == 0 {
			continue
		}
		if now != in {
			a.learn(ctx)
		}
		select {
		case <-a.served:
			a.learn(ctx)
		default:
		}
		sent, err := a.announce(ctx, last, now != in)
		if err == nil {
			in, last, failures = now, sent, 0
			continue
		}
		a.Log.Debug("the agent's status could not be sent", "error", err)
		retry.Pause(ctx, max(retry.Backoff(failures, retry.First, sessionRetry), asksToWait(err)))
		failures = min(failures+1, retry.MaxFailures)
	}
}

// learn requests the cluster's version and APIs. If the cluster does not respond, the last
// values remain.
func (a *Announcer) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	version, err := a.cluster.Version(ctx)
	if err == nil {
		a.kubernetes = version
		var apis []wire.API
		if apis, err = a.cluster.APIs(ctx); err == nil {
			a.apis, a.apisDigest = apis, digestOf(apis)
		}
	}
	if err != nil {
		a.Log.Debug("the version and APIs of the target are not known", "error", err)
	}
}

// announce sends the status if it differs from last, or if must is set. It returns the status
// that the hub has now.
func (a *Announcer) announce(ctx context.Context, last []byte, must bool) ([]byte, error) {
	s, err := a.compose()
	if err != nil {
		return nil, err
	}
	s.KubernetesVersion, s.APIsDigest = a.kubernetes, a.apisDigest
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	if !must && bytes.Equal(body, last) {
		return last, nil
	}
	answer, err := a.send(ctx, body)
	if err == nil && answer.SendAPIs {
		s.APIs = a.apis
		var whole []byte
		if whole, err = json.Marshal(s); err != nil {
			return nil, fmt.Errorf("encode the status: %w", err)
		}
		_, err = a.send(ctx, whole)
	}
	var refused *hubError
	if errors.As(err, &refused) && refused.code == http.StatusNotFound {
		return body, nil // a hub of an older version does not serve this request
	}
	return body, err
}

func (a *Announcer) send(ctx context.Context, body []byte) (wire.StatusAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	var answer wire.StatusAnswer
	r, err := a.Client.do(ctx, http.MethodPost, route.AgentStatus, nil, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	defer r.Close()
	if err := json.NewDecoder(io.LimitReader(r, wire.MaxLine)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("status: decode answer: %w", err)
	}
	return answer, nil
}

// infoTimeout bounds the requests of learn.
const infoTimeout = 3 * time.Second

// digestOf returns the digest of a list of APIs.
func digestOf(all []wire.API) string {
	b, err := json.Marshal(all)
	if err != nil { // structs of strings
		panic(err)
	}
	return wire.SumOf(b).String()[:apisDigest]
}
