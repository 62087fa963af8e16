package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	statusFile = "status.json"
	// statusEvery is the interval at which a changed status is written.
	statusEvery = time.Second
)

// Status is the status of an agent.
type Status struct {
	Location    key.Location `json:"location"`
	LocationUID string       `json:"locationUID,omitempty"`
	// Shard is the agent's shard of the location, K/N.
	Shard   string `json:"shard,omitempty"`
	Hub     string `json:"hub"`
	Target  string `json:"target"`
	Version string `json:"version,omitempty"`
	PID     int    `json:"pid"`
	// Running is false after a clean stop.
	Running bool      `json:"running"`
	Updated time.Time `json:"updated"`

	// Connected reports whether a session with the hub is open; Since is the time of its last
	// change.
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	// Proven is false if the hub's log does not continue the one that the agent knows.
	Proven bool `json:"proven"`
	// Awaits is the marker that "orrery location accept" would accept.
	Awaits    string `json:"awaits,omitempty"`
	LastError string `json:"lastError,omitempty"`
	// CredentialEnds is the expiry of the credential by the hub's clock; zero if there is none.
	CredentialEnds time.Time `json:"credentialEnds,omitzero"`
	// ClusterUID is the UID of the cluster's Namespace kube-system; empty if it is not known. ClusterReplaced is
	// the time at which the agent last found that another cluster had replaced the previous one; zero if never.
	ClusterUID      string    `json:"clusterUID,omitempty"`
	ClusterReplaced time.Time `json:"clusterReplaced,omitzero"`
	// ClusterUnproven is true while the agent may not read which cluster the target is.
	ClusterUnproven bool `json:"clusterUnproven,omitempty"`
	// Halt is the reason why the agent does not change the target; empty if it may.
	Halt string `json:"halt,omitempty"`

	// RequestLimit is the current limit of concurrent requests for objects.
	RequestLimit int `json:"pace,omitempty"`
	// StoreEncrypted reports whether the store is encrypted.
	StoreEncrypted bool `json:"storeEncrypted"`
	// StoreError is the reason why the store cannot be written; empty if it can.
	StoreError string `json:"storeError,omitempty"`

	// Revision and Marker are those of the last bookmark.
	Revision int64  `json:"revision"`
	Marker   string `json:"marker,omitempty"`
	// Unsent counts reports that the hub does not have yet.
	Unsent int `json:"unsent"`
	// Desired counts desired objects, Queued those that wait for a worker, Deferred
	// changes that wait for proof that the hub's log continues the previous one, States objects by
	// the state last reported.
	Desired  int                `json:"desired"`
	Queued   int                `json:"queued"`
	Deferred int                `json:"deferred"`
	States   map[wire.State]int `json:"states,omitempty"`
	// unproven reports whether objects at the target wait for proof of their log position.
	unproven bool
	// Guarded counts removals that wait for a confirmation of their digest.
	Guarded     int    `json:"guarded,omitempty"`
	PruneDigest string `json:"pruneDigest,omitempty"`
	// Kinds are the kinds of desired objects and of objects to remove, with the accounts that the
	// agent impersonates for them.
	Kinds []KindInUse `json:"kinds,omitempty"`
	// Seen are the kinds of which the agent reads objects that no Placement put there, for upsync
	// or for associated objects; Upsync has exceeded limits and unreadable kinds, nil if there are none.
	Seen   []SeenKind         `json:"seen,omitempty"`
	Upsync *wire.UpsyncStatus `json:"sees,omitempty"`
	// Leftovers are the first few objects that remain though they are not desired.
	Leftovers []Leftover `json:"leftovers,omitempty"`
}

// KindInUse is a kind of desired objects or of objects to remove.
type KindInUse struct {
	APIGroup string `json:"apiGroup"`
	Resource string `json:"resource"`
	// Own reports whether the agent applies some of them with its own rights.
	Own bool `json:"own,omitempty"`
	// ServiceAccounts are those that the agent impersonates for some of them, as NAMESPACE/NAME.
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
}

// SeenKind is a kind of which the agent reads objects that no Placement put there.
type SeenKind struct {
	APIGroup string `json:"apiGroup"`
	Resource string `json:"resource"`
}

// seenKinds returns the kinds of which the agent reads objects that no Placement put there.
func (a *Agent) seenKinds() (all []SeenKind) {
	for _, r := range a.upsync.Kinds() {
		all = append(all, SeenKind{r.APIGroup(), r.Resource})
	}
	return all
}

// kindsInUse returns the kinds of desired objects and of objects to remove.
func (a *Agent) kindsInUse() []KindInUse {
	var all []KindInUse
	for _, kind := range a.engine.Actors() {
		k := KindInUse{APIGroup: kind.Resource.APIGroup(), Resource: kind.Resource.Resource}
		for _, account := range kind.Accounts {
			if account == "" {
				k.Own = true
			} else {
				k.ServiceAccounts = append(k.ServiceAccounts, account)
			}
		}
		all = append(all, k)
	}
	return all
}

// Leftover is an object that remains at the target though it is not desired.
type Leftover struct {
	// Object is SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// leftovers returns the first few objects that remain though they are not desired.
func (a *Agent) leftovers() []Leftover {
	var all []Leftover
	var paths []string
	for _, o := range a.engine.Those((*worklist.Item).LeftOver) {
		paths = append(paths, o.Source().Path())
	}
	slices.Sort(paths)
	for _, path := range paths[:min(store.MaxExamples, len(paths))] {
		var r *wire.Report
		if err := a.store.View(func(t *store.Tx) (err error) {
			r, err = t.Reports.Get(path)
			return err
		}); err != nil || r == nil { // the report was deleted meanwhile
			continue
		}
		all = append(all, Leftover{Object: path, Reason: r.Reason, Message: r.Message})
	}
	return all
}

// ReadStatus reads the status that the agent on a data directory wrote last.
func ReadStatus(dataDir string) (Status, error) {
	var s Status
	b, err := os.ReadFile(filepath.Join(dataDir, statusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("no agent has run on data directory %q", dataDir)
	}
	if err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("decode status: %w", err)
	}
	return s, nil
}

// writeStatus replaces the status file atomically.
func writeStatus(dataDir string, s Status) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	path := filepath.Join(dataDir, statusFile)
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// fill adds the state of the session with the hub.
func (s *Status) fill(now hubclient.Now) {
	s.Connected, s.Proven, s.Since = now.Open, now.Proven, now.Since
	if now.Open && !now.Proven {
		s.Awaits = now.Marker
	}
	if now.Err != nil {
		s.LastError = wire.Brief(now.Err.Error())
	}
}

// announcement returns the status that the agent sends to the hub.
func (a *Agent) announcement() (wire.AgentStatus, error) {
	now, m := a.Status(), a.store.Meta()
	s := wire.AgentStatus{Version: a.config.Version, StoreEncrypted: a.store.Encrypted(), Halted: now.Halt, LogIdentity: wire.Proven, Deferred: now.Deferred}
	if !now.Proven || now.unproven {
		s.LogIdentity, s.Awaits = wire.Unproven, now.Awaits
	}
	s.Hub, s.Trusts = a.hub.Reached()
	s.StoreError = now.StoreError
	cluster := a.gate.Observed()
	if !m.Cluster.Replaced.IsZero() {
		cluster.Replaced = m.Cluster.Replaced.Format(time.RFC3339)
	}
	s.Cluster = &cluster
	var err error
	if len(m.Guarded) > 0 {
		err = a.store.View(func(t *store.Tx) error {
			s.Prune, err = t.Removals.Status()
			return err
		})
	}
	s.Purge, s.Upsync = a.purge.Status(), a.upsync.Status()
	return s, err
}

// Status returns the agent's current status. It may be called from any goroutine once
// Ready is closed.
func (a *Agent) Status() Status {
	m := a.store.Meta()
	s := Status{
		Location: m.Location, LocationUID: m.LocationUID, Target: a.config.Target.Host,
		Shard: a.config.Shard.String(), Version: a.config.Version, PID: os.Getpid(), Updated: time.Now().UTC().Truncate(time.Second),
		ClusterUID: m.Cluster.UID, ClusterReplaced: m.Cluster.Replaced, ClusterUnproven: a.gate.Unproven(), StoreEncrypted: a.store.Encrypted(), Halt: a.gate.Why(), Revision: m.Revision, Marker: m.Marker, Desired: m.Count, Deferred: m.Deferred, Unsent: m.Unsent,
	}
	s.Hub, _ = a.hub.Reached()
	if g := m.Guarded.Total(); g.Count > 0 {
		s.Guarded, s.PruneDigest = g.Count, g.Digest()
	}
	s.RequestLimit = a.target.Limiter.Now()
	if why := a.store.Failing(); why != nil {
		s.StoreError = wire.Brief(why.Error())
	}
	now := a.state.Now()
	s.fill(now)
	c := a.engine.Count()
	if missing := c.Missing + a.takeover.Unproven(); missing > 0 {
		s.Deferred, s.unproven = s.Deferred+missing, true
		s.Awaits = now.Marker
	}
	s.Queued, s.States = c.Queued, c.States
	s.Kinds, s.Seen, s.Upsync = a.kindsInUse(), a.seenKinds(), a.upsync.Status()
	if c.States[wire.Orphaned] > 0 {
		s.Leftovers = a.leftovers()
	}
	if a.keeper != nil {
		if id := a.keeper.Current(); id != nil {
			s.CredentialEnds = id.Ends()
		}
	}
	return s
}

// Halted returns the reason why the agent does not change the target; empty if it may. It may be
// called from any goroutine once Ready is closed.
func (a *Agent) Halted() string {
	if why := a.gate.Why(); why != "" || a.begun.Load() {
		return why
	}
	return "the agent looks at the cluster before it acts"
}

// StoreFailing returns the reason why the store cannot be written; nil if it can. It may be called from any goroutine
// once Ready is closed.
func StoreFailing(a *Agent) error { return a.store.Failing() }

// writeLast writes the status at the end. It returns no error if the store cannot be written either.
func writeLast(a *Agent) error {
	err := writeStatus(a.config.DataDir, a.Status())
	if a.store.Failing() == nil {
		return err
	}
	if err != nil {
		a.log.Warn("the last status cannot be written", "error", err)
	}
	return nil
}

// keepStatus writes the status file whenever something has changed.
func (a *Agent) keepStatus(ctx context.Context) {
	var last Status
	for ctx.Err() == nil {
		if a.store.CanReopen() {
			a.refuse(errWritable)
		}
		now := a.Status()
		now.Running = true
		if !now.equal(last) {
			last = now
			if err := writeStatus(a.config.DataDir, now); err != nil {
				a.log.Warn("the status file cannot be written", "error", err)
			}
		}
		retry.Pause(ctx, statusEvery)
	}
}

// equal compares everything but Updated.
func (s Status) equal(o Status) bool {
	s.Updated, o.Updated = time.Time{}, time.Time{}
	return reflect.DeepEqual(s, o)
}
