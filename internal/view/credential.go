package view

import (
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// credential tells a watch of a location's view that the location's token was
// replaced or taken back: whoever opened the watch has to show that they may.
type credential struct{ sub *table.Subscription } // nil if there is none

func (r *reader) credential() (credential, error) {
	l, ok := r.lens.(locationLens)
	if !ok {
		return credential{}, nil
	}
	t := r.server.config.Table
	sub, err := t.Subscribe(table.At(key.Enrolment(l.name)), t.Rev())
	return credential{sub}, err
}

func (c credential) close() {
	if c.sub != nil {
		c.sub.Close()
	}
}

func (c credential) wake() <-chan struct{} {
	if c.sub == nil {
		return nil
	}
	return c.sub.Wake()
}

// changed says that the token is another one, or may be.
func (c credential) changed() bool {
	if c.sub == nil {
		return false
	}
	steps, _, err := c.sub.Poll()
	return err != nil || len(steps) > 0
}
