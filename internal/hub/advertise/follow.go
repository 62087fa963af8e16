package advertise

import (
	"context"
	"errors"
	"time"
)

// reloadEvery is how often the files of authorities are read: of the hub's own, and of what
// clients trust at an advertised URL.
const reloadEvery = time.Second

// Follow takes over what changes in the files of authorities, and has agents and the
// operator's kubeconfig told of it, until the context ends.
func (c *Endpoints) Follow(ctx context.Context) error {
	said, stale := "", false
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		changed, err := c.reload(&stale)
		switch {
		case err != nil && err.Error() != said:
			said = err.Error()
			c.config.Logger.Error("what has changed in the files of authorities can't be taken over; the hub goes on as before", "error", err)
		case err == nil:
			said = ""
		}
		if changed {
			c.config.Logger.Info("the authorities that are trusted, or the one that signs, have changed", "signs", c.config.Authority.Signer().SerialNumber)
		}
	}
}

// reload says whether anything has changed. stale says that the operator's kubeconfig could
// not be written yet.
func (c *Endpoints) reload(stale *bool) (changed bool, err error) {
	authority, err := c.config.Authority.Reload()
	if err != nil {
		return false, err
	}
	trusted, err := c.urls.Reload()
	if authority || trusted {
		c.config.Changed()
	}
	if authority {
		c.clients.closeUntrusted(c.config.Authority.Pool())
		*stale = true
	}
	if *stale {
		_, failed := c.WriteKubeconfig()
		*stale, err = failed != nil, errors.Join(err, failed)
	}
	return authority || trusted, err
}
