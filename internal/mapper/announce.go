package mapper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

// announceEvery is how often the announcer looks whether something has changed;
// the hub hears of it at most that often.
const announceEvery = time.Second

// announcer tells the hub what the agent says of itself, at the start of each
// session and when something has changed. While nothing does it asks nobody for
// anything.
type announcer struct {
	hub    *hubClient
	target *target
	log    *slog.Logger
	// session is the number of the session that is open; zero: none is.
	session func() int
	// compose makes the status but for what the announcer knows itself.
	compose func() (wire.AgentStatus, error)
	// served receives when the target may serve other kinds than before, began when
	// a session has begun; one slot each.
	served, began chan struct{}

	kubernetes string
	apis       []wire.API
	apisDigest string
}

// servedChanged says that the target may serve other kinds than before. It does
// not wait.
func (a *announcer) servedChanged() { raise(a.served) }

// sessionBegan says that there is somebody to announce to. It does not wait.
func (a *announcer) sessionBegan() { raise(a.began) }

func raise(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// run announces until ctx ends.
func (a *announcer) run(ctx context.Context) {
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
		now := a.session()
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
		said, err := a.announce(ctx, last, now != in)
		if err == nil {
			in, last, failures = now, said, 0
			continue
		}
		a.log.Debug("the agent's status could not be sent", "error", err)
		retry.Pause(ctx, max(retry.Backoff(failures, retry.First, sessionRetry), asksToWait(err)))
		failures = min(failures+1, retry.MaxFailures)
	}
}

// learn asks the target what it is. What it does not say now is kept as it was.
func (a *announcer) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	version, err := a.target.version(ctx)
	if err == nil {
		a.kubernetes = version
		var apis []wire.API
		if apis, err = a.target.apis(ctx); err == nil {
			a.apis, a.apisDigest = apis, apisDigest(apis)
		}
	}
	if err != nil {
		a.log.Debug("the target does not say what it is", "error", err)
	}
}

// announce sends the status if it is another than the last one, or if it has to,
// and returns what the hub knows now.
func (a *announcer) announce(ctx context.Context, last []byte, must bool) ([]byte, error) {
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
		return body, nil // a hub that is older than this request
	}
	return body, err
}

func (a *announcer) send(ctx context.Context, body []byte) (wire.StatusAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	var answer wire.StatusAnswer
	r, err := a.hub.do(ctx, http.MethodPost, route.AgentStatus, nil, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	defer r.Close()
	if err := json.NewDecoder(io.LimitReader(r, wire.MaxLine)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("status: decode answer: %w", err)
	}
	return answer, nil
}
