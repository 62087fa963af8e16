package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// simulated is an agent without a target: it speaks the agents' protocol over a
// connection of its own, and reports at once that what it got is applied. It
// starts with nothing and never walks, so it is for locations that have nothing
// when it connects.
type simulated struct {
	*protocol.Client
	arrivals chan<- arrival
	answers  *answers
	reports  chan wire.ReportLine
}

func newSimulated(client *protocol.Client, arrivals chan<- arrival, answers *answers) *simulated {
	const maxReports = 100
	return &simulated{Client: client, arrivals: arrivals, answers: answers, reports: make(chan wire.ReportLine, maxReports)}
}

// run holds a session until ctx ends, or it fails. connected is closed when the
// hub has said hello.
func (s *simulated) run(ctx context.Context, connected chan<- struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.Close()
	stream, err := s.Open(ctx, 0, "")
	if err != nil {
		return err
	}
	defer stream.Close()
	failed := make(chan error, 1)
	go func() {
		failed <- s.report(ctx)
		cancel() // which ends the stream
	}()
	err = s.follow(ctx, stream, connected)
	cancel()
	return errors.Join(err, <-failed)
}

// follow reads frames until the stream ends.
func (s *simulated) follow(ctx context.Context, stream *protocol.Stream, connected chan<- struct{}) error {
	for {
		f, err := stream.Next()
		if err != nil {
			return err
		}
		now := time.Now()
		switch {
		case f.Hello != nil:
			close(connected)
		case f.Put != nil:
			select {
			case s.arrivals <- arrival{s.Join.Location, f.Put, now}:
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
	answer, err := s.Report(ctx, all...)
	if err != nil {
		return err
	}
	if len(answer.Refused) > 0 {
		return fmt.Errorf("the hub refused the report of %q: %s", answer.Refused[0].Key, answer.Refused[0].Message)
	}
	s.answers.add(answer.Revision, len(all))
	return nil
}
