package demo

import (
	"context"
	"fmt"
	"time"
)

// chapter is one step of the demo.
type chapter struct {
	title string
	tell  func(context.Context) error
}

// tell runs all steps.
func (s *story) tell(ctx context.Context) error {
	story := []chapter{
		{"Locations", s.tellLocations},
		{"A space, and an application in it", s.tellSpace},
		{"Place it by label", s.tellPlacement},
		{"Edit it", s.tellEdit},
		{"The label of a location changes", s.tellLabel},
		{"Objects change in a cluster", s.tellTampering},
		{"An agent is away", s.tellAway},
		{"Delete it", s.tellDeletion},
	}
	if !s.world.config.Once {
		story = append(story, chapter{"Once more, for you to play with", s.tellAgain})
	}
	began := time.Now()
	for _, c := range story {
		s.title(c.title)
		if err := c.tell(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("step %d, %q: %w", s.step, c.title, err)
		}
	}
	s.printf("\n")
	s.ok(fmt.Sprintf("all %d steps came true, in %.1fs", len(story), time.Since(began).Seconds()))
	return nil
}
