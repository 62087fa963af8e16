package faults

import (
	"errors"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

const (
	// againTimes is how often the test tries to create a space that it has just deleted, and againEvery
	// the pause between two attempts.
	againTimes = 200
	againEvery = 10 * time.Millisecond
)

var spaceObjects = v1alpha1.GroupVersion.WithResource("spaces")

// makeSpaceAgain deletes a space with all its objects, and creates it again as soon as its name is
// free. Its other objects are created before the next round. A site that is disconnected meanwhile
// receives the deletion and the creation together.
func (l *life) makeSpaceAgain() {
	space := pick(l.r, spaceNames)
	l.moved["space|"+space] = true
	maps.DeleteFunc(l.promised, func(k, _ string) bool { return strings.HasPrefix(k, space+"|") })
	err := l.root.Resource(spaceObjects).Delete(l.t.Context(), space, metav1.DeleteOptions{})
	l.record("delete space %s: %v", space, err)
	if err != nil {
		return
	}
	for range againTimes {
		err = l.addSpace(space)
		if err == nil || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
		<-time.After(againEvery)
	}
	l.record("make space %s again: %v", space, err)
}

func (l *life) addSpace(name string) error {
	s := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Space", "metadata": map[string]any{"name": name},
	}}
	_, err := l.root.Resource(spaceObjects).Create(l.t.Context(), s, metav1.CreateOptions{})
	return err
}

// restoreSpace has a space that was deleted in this round be there again, with what
// it started with but for its namespaces.
func (l *life) restoreSpace(space string) {
	l.t.Helper()
	if !l.moved["space|"+space] {
		return
	}
	env.Eventually(l.t, soon, func() error {
		s, err := l.root.Resource(spaceObjects).Get(l.t.Context(), space, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return l.addSpace(space)
		case err != nil:
			return err
		case s.GetDeletionTimestamp() != nil:
			return errTerminating
		}
		var all []error
		for _, crd := range []*unstructured.Unstructured{definition(space), gadgetDefinition(true, gadgets.Version)} {
			_, err = l.spaces[space].Resource(world.CRDs).Create(l.t.Context(), crd, metav1.CreateOptions{})
			all = append(all, unlessThere(err))
		}
		all = append(all, unlessThere(place(l.t, l.spaces[space], always, metav1.LabelSelector{})))
		for _, group := range []string{"g0", "g1"} {
			all = append(all, unlessThere(l.addPlacement(space, group)))
		}
		return errors.Join(all...)
	})
}

func unlessThere(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
