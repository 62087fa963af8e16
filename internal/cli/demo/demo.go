package demo

import (
	"context"
	"errors"
)

// Run runs the demo. It returns nil if every step succeeded and, without Once, the context ended
// afterwards. All parts have stopped when it returns.
func Run(ctx context.Context, config Config) (err error) {
	if err := config.Validate(); err != nil {
		return err
	}
	files, err := openDataDir(config.DataDir)
	if err != nil {
		return err
	}
	w := &world{config: config, files: files}
	s := &story{narrator: &narrator{out: config.Out, colour: config.Colour}, world: w, checker: &checker{world: w}}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	w.Ended = abort // no part may end by itself
	defer func() { err = s.close(ctx, err) }()
	if err := w.startClusters(ctx); err != nil {
		return err
	}
	s.introduce()
	if err := w.startAgents(ctx); err != nil {
		return err
	}
	if err := s.tell(ctx); err != nil {
		return err
	}
	if config.Once {
		return nil
	}
	s.invite()
	<-ctx.Done()
	s.say("\nStopping.")
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
