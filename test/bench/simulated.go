package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"orrery.dev/orrery/internal/wire"
)

// simulated is an agent without a target: it speaks the agents' protocol over a
// connection of its own, and reports at once that what it got is applied. It
// starts with nothing and never walks, so it is for locations that have nothing
// when it connects.
type simulated struct {
	join      wire.Join
	http      *http.Client
	transport *http.Transport
	arrivals  chan<- arrival
	answers   *answers
	reports   chan wire.ReportLine
}

func newSimulated(join wire.Join, arrivals chan<- arrival, answers *answers) (*simulated, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(join.CA)) {
		return nil, errors.New("join token: ca holds no certificate")
	}
	const maxReports = 100
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}
	return &simulated{
		join: join, arrivals: arrivals, answers: answers, reports: make(chan wire.ReportLine, maxReports),
		http: &http.Client{Transport: transport}, transport: transport,
	}, nil
}

// run holds a session until ctx ends, or it fails. connected is closed when the
// hub has said hello.
func (s *simulated) run(ctx context.Context, connected chan<- struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.http.CloseIdleConnections()
	body, err := s.open(ctx, http.MethodGet, "desired?version=simulated", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	failed := make(chan error, 1)
	go func() {
		failed <- s.report(ctx)
		cancel() // which ends the stream
	}()
	err = s.follow(ctx, body, connected)
	cancel()
	return errors.Join(err, <-failed)
}

// follow reads frames until the stream ends.
func (s *simulated) follow(ctx context.Context, body io.Reader, connected chan<- struct{}) error {
	frames := wire.NewDecoder(body)
	for {
		var f wire.Frame
		if err := frames.Decode(&f); err != nil {
			return err
		}
		now := time.Now()
		switch {
		case f.Hello != nil:
			close(connected)
		case f.Put != nil:
			select {
			case s.arrivals <- arrival{s.join.Location, f.Put, now}:
			case <-ctx.Done():
				return ctx.Err()
			}
			s.queue(ctx, appliedLine(f.Put, now))
		case f.Del != nil:
			s.queue(ctx, wire.ReportLine{Key: f.Del.Key, Removed: true})
		case f.Bye != nil:
			return fmt.Errorf("the hub ended the session: %s %s", f.Bye.Reason, f.Bye.Message)
		}
	}
}

// appliedLine reports that an object is as it should be.
func appliedLine(p *wire.Put, now time.Time) wire.ReportLine {
	return wire.ReportLine{Key: p.Key, Report: &wire.Report{
		UID: p.UID, Generation: p.Generation, Digest: p.Digest, State: wire.Applied,
		Since: now.UTC().Format(time.RFC3339),
	}}
}

// queue has a report sent, in its turn.
func (s *simulated) queue(ctx context.Context, line wire.ReportLine) {
	select {
	case s.reports <- line:
	case <-ctx.Done():
	}
}

// report sends reports as they come, until ctx ends.
func (s *simulated) report(ctx context.Context) error {
	for {
		select {
		case line := <-s.reports:
			if err := s.send(ctx, s.gather(line)); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gather adds to a line those that wait already.
func (s *simulated) gather(first wire.ReportLine) []wire.ReportLine {
	all := []wire.ReportLine{first}
	for len(all) < cap(s.reports) {
		select {
		case line := <-s.reports:
			all = append(all, line)
		default:
			return all
		}
	}
	return all
}

func (s *simulated) send(ctx context.Context, all []wire.ReportLine) error {
	var lines bytes.Buffer
	for enc, i := wire.NewEncoder(&lines), 0; i < len(all); i++ {
		if err := enc.Encode(all[i]); err != nil {
			return fmt.Errorf("encode a report: %w", err)
		}
	}
	body, err := s.open(ctx, http.MethodPost, "reports", &lines)
	if err != nil {
		return err
	}
	defer body.Close()
	var answer wire.ReportsAnswer
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return fmt.Errorf("decode the answer to a report: %w", err)
	}
	if len(answer.Refused) > 0 {
		return fmt.Errorf("the hub refused the report of %q: %s", answer.Refused[0].Key, answer.Refused[0].Message)
	}
	s.answers.add(answer.Revision, len(all))
	return nil
}

// open sends a request as the location and returns the answer's body, which the
// caller closes.
func (s *simulated) open(ctx context.Context, method, call string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.join.Hub+"/agent/v1/locations/"+s.join.Location+"/"+call, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	req.Header.Set("Authorization", "Bearer "+s.join.Token)
	req.Header.Set(wire.Header, wire.ProtocolVersion)
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<12)) // what there is of it
		return nil, fmt.Errorf("%s: %s: %s", call, resp.Status, text)
	}
	return resp.Body, nil
}
