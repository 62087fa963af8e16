package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	ingresses   = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
	campaigns   = schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "campaigns"}
	locations   = v1alpha1.GroupVersion.WithResource("locations")
)

// story shows each step to the user, and what came of it. A step ends when the invariants hold.
type story struct {
	*narrator
	world   *world
	checker *checker
}

// awaitInvariants waits until the invariants hold and, if also is not nil, it returns nil. Then it prints the
// result.
func (s *story) awaitInvariants(ctx context.Context, also func(context.Context) error, away ...*location) error {
	began := time.Now()
	err := eventually(ctx, func(ctx context.Context) (err error) {
		if also != nil {
			if err := also(ctx); err != nil {
				return err
			}
		}
		s.checker.found, err = s.checker.verify(ctx, away...)
		return err
	})
	if err == nil {
		s.ok(fmt.Sprintf("after %.1fs the invariants hold: %s", time.Since(began).Seconds(), s.checker.found))
		s.printf("\n")
	}
	return err
}

// applyApp applies the objects of the application to the space.
func (s *story) applyApp(ctx context.Context) error {
	app, err := parse(storefrontYAML)
	if err != nil {
		return err
	}
	for _, object := range app {
		if err := s.world.shop.apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// setStage changes the stage label of a location.
func (s *story) setStage(ctx context.Context, l *location, stage string) error {
	s.command("kubectl --context %s label location %s %s=%s --overwrite", rootSpace, l.name, stageLabel, stage)
	patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{stageLabel: stage}}}
	return s.world.root.merge(ctx, locations, "", l.name, patch)
}

// close stops all parts, after it has removed the objects of the demo from clusters of the user.
func (s *story) close(ctx context.Context, err error) error {
	if s.world.anyReal() {
		err = errors.Join(err, s.clean(context.WithoutCancel(ctx)))
	}
	err = errors.Join(err, s.world.Stop())
	return s.world.files.close(err, ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled))
}

// clean removes the objects of the demo from real clusters.
func (s *story) clean(ctx context.Context) error {
	if s.world.shop == nil {
		return nil
	}
	err := s.world.shop.delete(ctx, objectOf("Placement", placementName))
	if apierrors.IsNotFound(err) {
		return nil // the demo did not get that far
	}
	if err != nil {
		return fmt.Errorf("empty the clusters: %w", err)
	}
	for _, l := range s.world.locations {
		if l.agent == nil && l.join.Token != "" {
			if err := s.world.startAgent(ctx, l); err != nil {
				return err
			}
		}
	}
	if err := eventually(ctx, func(ctx context.Context) error { _, err := s.checker.verify(ctx); return err }); err != nil {
		return fmt.Errorf("empty the clusters: %w", err)
	}
	return nil
}
