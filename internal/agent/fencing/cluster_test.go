package fencing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/test/support/seeds"
)

var resource = schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}

// cluster has Leases, as an API server does, by requests that may take long, and whose answers
// may be lost.
type cluster struct {
	mu    sync.Mutex
	all   map[string]*coordinationv1.Lease
	count int
	rand  *rand.Rand
	// bad is the number of failures in a hundred requests.
	bad int
}

func newCluster(seed uint64) *cluster {
	return &cluster{all: map[string]*coordinationv1.Lease{}, rand: rand.New(rand.NewPCG(seed, 1))}
}

var errLink = errors.New("the link is broken")

// during does something at one moment of a request's.
func (c *cluster) during(ctx context.Context, do func() error) error {
	c.mu.Lock()
	before, after := time.Duration(c.rand.IntN(50))*time.Millisecond, time.Duration(c.rand.IntN(50))*time.Millisecond
	lost, mute := c.rand.IntN(100) < c.bad, c.rand.IntN(100) < c.bad
	if c.rand.IntN(100) < c.bad { // the process, or the link, hangs
		before += time.Duration(c.rand.IntN(40)) * time.Second
	}
	c.mu.Unlock()
	<-time.After(before)
	if lost {
		return errLink
	}
	c.mu.Lock()
	err := do()
	c.mu.Unlock()
	<-time.After(after)
	if mute {
		return errLink
	}
	if ctx.Err() != nil {
		return ctx.Err() // the write stays
	}
	return err
}

func (c *cluster) ListLeases(ctx context.Context, _ string) (all []coordinationv1.Lease, err error) {
	err = c.during(ctx, func() error {
		for _, l := range seeds.Ordered(c.all) {
			all = append(all, *l.DeepCopy())
		}
		c.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return nil
	})
	return all, err
}

func (c *cluster) CreateLease(ctx context.Context, l *coordinationv1.Lease) (made *coordinationv1.Lease, err error) {
	err = c.during(ctx, func() error {
		if c.all[pathOf(l)] != nil {
			return apierrors.NewAlreadyExists(resource, l.Name)
		}
		made = c.put(l, types.UID(fmt.Sprint(c.count)))
		return nil
	})
	return made, err
}

func (c *cluster) put(l *coordinationv1.Lease, uid types.UID) *coordinationv1.Lease {
	c.count++
	now := l.DeepCopy()
	now.UID, now.ResourceVersion = uid, strconv.Itoa(c.count)
	c.all[pathOf(l)] = now
	return now.DeepCopy()
}

func (c *cluster) UpdateLease(ctx context.Context, l *coordinationv1.Lease) (made *coordinationv1.Lease, err error) {
	err = c.during(ctx, func() error {
		if err := c.same(l); err != nil {
			return err
		}
		made = c.put(l, l.UID)
		return nil
	})
	return made, err
}

func (c *cluster) same(l *coordinationv1.Lease) error {
	switch is := c.all[pathOf(l)]; {
	case is == nil:
		return apierrors.NewNotFound(resource, l.Name)
	case is.UID != l.UID || is.ResourceVersion != l.ResourceVersion:
		return apierrors.NewConflict(resource, l.Name, errors.New("it has changed"))
	}
	return nil
}

// evict deletes a Lease, as an operator does.
func (c *cluster) evict(which int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path := range seeds.Ordered(c.all) {
		if which--; which < 0 {
			delete(c.all, path)
			return
		}
	}
}
