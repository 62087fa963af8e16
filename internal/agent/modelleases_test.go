package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The Leases of the cluster of the model, and a link that loses all responses.

const leaseGroup = coordinationv1.GroupName

// leaseChange is a change of a Lease.
type leaseChange struct {
	revision uint64
	lease    *coordinationv1.Lease
	gone     bool
}

// answerLease answers requests for Leases.
func (l *lifeline) answerLease(r *http.Request, name string, body []byte) *http.Response {
	gr := schema.GroupResource{Group: leaseGroup, Resource: "leases"}
	if r.Method == http.MethodGet {
		if r.URL.Query().Get("watch") != "" {
			return l.watchLeases(r)
		}
		all := coordinationv1.LeaseList{Items: []coordinationv1.Lease{}}
		all.ResourceVersion = fmt.Sprint(l.revision)
		for _, k := range slices.Sorted(maps.Keys(l.leases)) {
			all.Items = append(all.Items, *l.leases[k])
		}
		return reply(all)
	}
	var sent coordinationv1.Lease
	if err := json.Unmarshal(body, &sent); err != nil {
		panic(err)
	}
	now := l.leases[sent.Name]
	switch create := r.Method == http.MethodPost; {
	case create && now != nil:
		return failed(apierrors.NewAlreadyExists(gr, sent.Name))
	case create:
		l.uids++
		sent.UID = types.UID(fmt.Sprintf("lease-%d", l.uids))
	case now == nil:
		return failed(apierrors.NewNotFound(gr, name))
	case now.UID != sent.UID || now.ResourceVersion != sent.ResourceVersion:
		return failed(apierrors.NewConflict(gr, name, errors.New("it has changed")))
	}
	l.setLease(&sent)
	return reply(sent)
}

// setLease makes or replaces a Lease.
func (c *cluster) setLease(to *coordinationv1.Lease) {
	c.revision++
	to.ResourceVersion = fmt.Sprint(c.revision)
	c.leases[to.Name] = to.DeepCopy()
	c.leaseLog = append(c.leaseLog, leaseChange{c.revision, c.leases[to.Name], false})
	c.wake()
}

// evict deletes a Lease, as an operator does.
func (c *cluster) evict(name string) {
	previous := c.leases[name]
	if previous == nil {
		return
	}
	c.revision++
	delete(c.leases, name)
	c.leaseLog = append(c.leaseLog, leaseChange{c.revision, previous, true})
	c.wake()
}

func (l *lifeline) watchLeases(r *http.Request) *http.Response {
	after, err := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	if err != nil {
		panic(err)
	}
	w := &watchBody{line: l, ctx: r.Context(), epoch: l.epoch, after: after, closed: make(chan struct{}), ends: time.Now().Add(time.Hour)}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: &leaseWatch{w}}
}

// leaseWatch is the answer to a watch of Leases. It is for one reader.
type leaseWatch struct{ *watchBody }

// Read implements io.Reader.
func (w *leaseWatch) Read(b []byte) (int, error) {
	for len(w.left) == 0 {
		l := w.line
		l.mu.Lock()
		gone, changed := l.dead.Load() || w.epoch != l.epoch || l.weather.dark, l.changed
		for _, h := range l.leaseLog {
			if h.revision <= w.after || l.far.Load() {
				continue
			}
			w.after = h.revision
			now := *h.lease
			now.ResourceVersion = fmt.Sprint(h.revision)
			kind := "MODIFIED"
			if h.gone {
				kind = "DELETED"
			}
			text, err := json.Marshal(now)
			if err != nil {
				panic(err)
			}
			w.left = fmt.Appendf(w.left, `{"type":%q,"object":%s}`+"\n", kind, text)
		}
		l.mu.Unlock()
		switch {
		case gone:
			return 0, errCut
		case len(w.left) > 0:
		case !w.wait(changed, time.Until(w.ends)):
			return 0, io.EOF
		}
	}
	n := copy(b, w.left)
	w.left = w.left[n:]
	return n, nil
}

// unheard handles a request over a link that loses all responses: the request may have arrived,
// and be carried out later, until the timeout of the API server.
func (l *lifeline) unheard(r *http.Request, body []byte, luck int) (*http.Response, error) {
	if r.Method != http.MethodGet && luck < 50 {
		most := 30 * time.Second // of an API server for what asks for nothing shorter
		if timeout := r.URL.Query().Get("timeout"); timeout != "" {
			var err error
			if most, err = time.ParseDuration(timeout); err != nil {
				panic(err)
			}
		}
		l.mu.Lock()
		late := time.Duration(l.rng.Int64N(int64(most)))
		l.mu.Unlock()
		time.AfterFunc(late, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if err := l.answer(r, body).Body.Close(); err != nil {
				panic(err)
			}
		})
	}
	for l.far.Load() && r.Context().Err() == nil && !l.dead.Load() {
		timer := time.NewTimer(time.Second)
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
		timer.Stop()
	}
	return nil, errCut
}
