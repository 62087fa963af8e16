package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

const (
	minLocations = 2
	maxLocations = 20
	// stepTimeout bounds how long a step of the story may take to come true.
	stepTimeout = 3 * time.Minute
	// lookEvery is the time between two looks at whether it has.
	lookEvery = 50 * time.Millisecond
	// manager is the demo's field manager.
	manager = "orrery-demo"
)

// Config is what a demo needs.
type Config struct {
	// Locations is the number of locations.
	Locations int
	// Kubeconfigs are files of clusters that stand for the first locations; the
	// others are simulated.
	Kubeconfigs []string
	// Once ends the demo when the story has been told and verified. Otherwise it
	// leaves everything running until the context ends.
	Once bool
	// DataDir holds everything that the demo writes. It must be empty or not
	// exist, and stays. Empty: a temporary one, which goes with the demo.
	DataDir string
	// Program is how the user calls the command line.
	Program string
	// Out gets the story; Colour says that it may be coloured.
	Out    io.Writer
	Colour bool
}

// Validate returns what is wrong with the configuration, nil if nothing is.
func (c Config) Validate() error {
	if c.Locations < minLocations || c.Locations > maxLocations {
		return fmt.Errorf("%d locations: want %d to %d", c.Locations, minLocations, maxLocations)
	}
	if len(c.Kubeconfigs) > c.Locations {
		return fmt.Errorf("%d kubeconfigs for %d locations", len(c.Kubeconfigs), c.Locations)
	}
	return nil
}

// Run tells the story. It returns nil if every step came true and, unless the
// story is told once, the context ended afterwards. What it started has ended
// when it returns.
func Run(ctx context.Context, config Config) (err error) {
	if err := config.Validate(); err != nil {
		return err
	}
	w := &world{config: config, narrator: &narrator{out: config.Out, colour: config.Colour}}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	w.Ended = abort // nothing ends by itself
	if err := w.openDir(); err != nil {
		return err
	}
	defer func() { err = w.close(ctx, err) }()
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.tell(ctx); err != nil {
		return err
	}
	if config.Once {
		return nil
	}
	w.invite()
	<-ctx.Done()
	w.say("\nStopping.")
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// openDir makes the directory for everything that the demo writes, and its log.
func (w *world) openDir() (err error) {
	w.dir = w.config.DataDir
	if w.dir == "" {
		if w.dir, err = os.MkdirTemp("", "orrery-demo-"); err != nil {
			return fmt.Errorf("make a data directory: %w", err)
		}
	} else if err := emptyDir(w.dir); err != nil {
		return err
	}
	if w.log, err = os.OpenFile(filepath.Join(w.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	w.logger = slog.New(slog.NewTextHandler(w.log, nil))
	return nil
}

func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("data directory %q is not empty: a demo starts with a new one", dir)
	}
	return nil
}

// close stops what runs, and removes the data unless the user asked to keep them or they
// show what went wrong.
func (w *world) close(ctx context.Context, err error) error {
	if w.anyReal() {
		err = errors.Join(err, w.clean(context.WithoutCancel(ctx)))
	}
	err = errors.Join(err, w.Stop(), w.log.Close())
	interrupted := ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled)
	switch {
	case err != nil && !interrupted:
		return fmt.Errorf("%w (see the log in %s)", err, w.dir)
	case w.config.DataDir == "":
		return errors.Join(err, os.RemoveAll(w.dir))
	}
	return err
}

// eventually calls check until it returns nil, and returns its last error when the step
// has timed out.
func eventually(ctx context.Context, check func(context.Context) error) error {
	deadline, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("timed out after %s", stepTimeout))
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last error
	for {
		err := check(deadline)
		if err == nil {
			return nil
		}
		if last == nil || deadline.Err() == nil { // else it says only that time is up
			last = err
		}
		select {
		case <-tick.C:
		case <-deadline.Done():
			return fmt.Errorf("%w: %w", context.Cause(deadline), last)
		}
	}
}
