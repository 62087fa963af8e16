package advertise

import (
	"context"
	"errors"
	"time"
)

// reloadEvery is the interval at which files of certificate authorities are read: the hub's own,
// and those of advertised URLs.
const reloadEvery = time.Second

// Follow reloads the files of certificate authorities until the context ends. After a change it
// updates agents and the administrator's kubeconfig.
func (c *Endpoints) Follow(ctx context.Context) error {
	reported, stale := "", false
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
		case err != nil && err.Error() != reported:
			reported = err.Error()
			c.config.Logger.Error("what has changed in the files of authorities can't be taken over; the hub goes on as before", "error", err)
		case err == nil:
			reported = ""
		}
		if changed {
			c.config.Logger.Info("the authorities that are trusted, or the one that signs, have changed", "signs", c.config.Authority.Signer().SerialNumber)
		}
	}
}

// reload reports whether anything has changed. stale reports that the administrator's kubeconfig
// could not be written yet.
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
