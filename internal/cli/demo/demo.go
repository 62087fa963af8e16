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
	// stepTimeout is the time limit for a step of the demo.
	stepTimeout = 3 * time.Minute
	// lookEvery is the interval between checks of a step's result.
	lookEvery = 50 * time.Millisecond
	// manager is the demo's field manager.
	manager = "orrery-demo"
)

// Config configures a demo.
type Config struct {
	// Locations is the number of locations.
	Locations int
	// Kubeconfigs are files of clusters for the first locations; the other locations are simulated.
	Kubeconfigs []string
	// Once ends the demo after its last step. Otherwise everything runs until the context ends.
	Once bool
	// DataDir is the directory for all files of the demo. It must be empty or not exist, and is
	// kept. If DataDir is empty, the demo uses a temporary directory and removes it.
	DataDir string
	// Program is the name by which the user calls the command line.
	Program string
	// Out receives the text of the demo; Colour allows escape sequences for colours.
	Out    io.Writer
	Colour bool
}

// Validate returns an error if the configuration is invalid.
func (c Config) Validate() error {
	if c.Locations < minLocations || c.Locations > maxLocations {
		return fmt.Errorf("%d locations: want %d to %d", c.Locations, minLocations, maxLocations)
	}
	if len(c.Kubeconfigs) > c.Locations {
		return fmt.Errorf("%d kubeconfigs for %d locations", len(c.Kubeconfigs), c.Locations)
	}
	return nil
}

// Run runs the demo. It returns nil if every step succeeded and, without Once, the context ended
// afterwards. All parts have stopped when it returns.
func Run(ctx context.Context, config Config) (err error) {
	if err := config.Validate(); err != nil {
		return err
	}
	w := &world{config: config, narrator: &narrator{out: config.Out, colour: config.Colour}}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	w.Ended = abort // no part may end by itself
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

// openDir creates the directory for all files of the demo, and its log.
func (w *world) openDir() (err error) {
	w.dir = w.config.DataDir
	if w.dir == "" {
		if w.dir, err = os.MkdirTemp("", "orrery-demo-"); err != nil {
			return fmt.Errorf("make a data directory: %w", err)
		}
	} else if err := emptyDir(w.dir); err != nil {
		return err
	}
	if w.dir, err = filepath.Abs(w.dir); err != nil { // the hints are for other terminals
		return fmt.Errorf("find the data directory: %w", err)
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

// close stops all parts. It removes the data, unless the user asked to keep them or a step failed.
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

// eventually calls check until it returns nil. After the time limit of a step, it returns the last
// error.
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
		if last == nil || deadline.Err() == nil { // otherwise the error is only that of the time limit
			last = err
		}
		select {
		case <-tick.C:
		case <-deadline.Done():
			return fmt.Errorf("%w: %w", context.Cause(deadline), last)
		}
	}
}
