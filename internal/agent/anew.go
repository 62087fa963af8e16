package agent

import "context"

// RunAnew runs an agent. If its store turns out to be older than the target, RunAnew runs another agent with the same
// configuration and a new store. If a failed store can be written again, it runs another agent with that store. next
// is called with each further agent before it runs.
func RunAnew(ctx context.Context, a *Agent, next func(*Agent)) error {
	for {
		err := a.Run(ctx)
		if !beginsAgain(err) || ctx.Err() != nil {
			return err
		}
		a.log.Warn("the agent starts again", "why", err)
		again, err := successor(ctx, a)
		if err != nil {
			return err
		}
		a = again
		next(a)
	}
}

// successor returns another agent with the same configuration. It reads the files of the cluster's configuration
// again. It returns when ctx ends, even if the file system of these files does not respond.
func successor(ctx context.Context, a *Agent) (*Agent, error) {
	type result struct {
		agent *Agent
		err   error
	}
	made := make(chan result, 1)
	go func() {
		config := a.config
		config.Given = false
		if config.ReloadTarget != nil { // the files that the first configuration names may have been deleted
			if target, err := config.ReloadTarget(); err == nil && target.Host == config.Target.Host {
				config.Target = target
			}
		}
		again, err := New(config)
		made <- result{again, err}
	}()
	select {
	case r := <-made:
		return r.agent, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
