package mapper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

const statusFile = "status.json"

// Status is what an agent says of itself.
type Status struct {
	Location    string `json:"location"`
	LocationUID string `json:"locationUID,omitempty"`
	Hub         string `json:"hub"`
	Target      string `json:"target"`
	Version     string `json:"version,omitempty"`
	PID         int    `json:"pid"`
	// Running is false in what a clean stop leaves behind.
	Running bool      `json:"running"`
	Updated time.Time `json:"updated"`

	// Connected says that a session with the hub is open, since Since; else that
	// none has been since then.
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	// Proven is false if the hub's log does not continue the one before.
	Proven bool `json:"proven"`
	// Awaits is the marker that "orrery location accept" would accept.
	Awaits    string `json:"awaits,omitempty"`
	LastError string `json:"lastError,omitempty"`
	// Halt is why nothing is changed at the target; empty: it is.
	Halt string `json:"halt,omitempty"`

	// Pace is how many objects may be worked on at once now.
	Pace int `json:"pace,omitempty"`
	// StoreError is why the store cannot be written; empty: it can.
	StoreError string `json:"storeError,omitempty"`

	// Revision and Marker are those of the last mark.
	Revision int64  `json:"revision"`
	Marker   string `json:"marker,omitempty"`
	// Unsent counts reports that the hub does not have yet.
	Unsent int `json:"unsent"`
	// Desired counts what the location is to have, Queued what waits for a worker,
	// Deferred what waits for proof of lineage, States what is reported.
	Desired  int                `json:"desired"`
	Queued   int                `json:"queued"`
	Deferred int                `json:"deferred"`
	States   map[wire.State]int `json:"states,omitempty"`
	// unproven says that objects at the target wait for proof.
	unproven bool
	// Guarded counts removals that wait for a confirmation of their digest.
	Guarded     int    `json:"guarded,omitempty"`
	PruneDigest string `json:"pruneDigest,omitempty"`
	// Leftovers are the first few objects that stay though they are not desired, with why.
	Leftovers []Leftover `json:"leftovers,omitempty"`
}

// Leftover is an object that stays at the target though it is not desired.
type Leftover struct {
	// Object is SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// leftovers are the first few objects that stay though they are not desired.
func (a *Agent) leftovers() []Leftover {
	var all []Leftover
	for _, path := range a.engine.staying() {
		var r *wire.Report
		if err := a.store.view(func(t *tx) (err error) {
			r, err = t.report(path)
			return err
		}); err != nil || r == nil { // it has just gone
			continue
		}
		all = append(all, Leftover{Object: path, Reason: r.Reason, Message: r.Message})
	}
	return all
}

// staying are the paths of the first few items that stay though they are not desired.
func (e *engine) staying() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.states[wire.Orphaned] == 0 {
		return nil
	}
	var all []string
	for id, it := range e.items {
		if it.state == wire.Orphaned && !it.wanted {
			all = append(all, key.Object{Space: it.home(), Identity: parseIdentity(id)}.Path())
		}
	}
	slices.Sort(all)
	return all[:min(maxExamples, len(all))]
}

// ReadStatus reads what the agent on a data directory last said of itself.
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

// writeStatus replaces the status file as a whole.
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

// progress is how the session with the hub is.
type progress struct {
	mu     sync.Mutex
	open   bool
	number int // of the session
	proven bool
	marker string // of the hub's log
	// accepted says that an operator has accepted that log.
	accepted bool
	ready    bool // the desired content is known
	since    time.Time
	err      error
	// opened is called, without the lock, when a session is open and the desired
	// content is known.
	opened func()
	// turned is called, without the lock, when a session has begun or its log is
	// accepted.
	turned func()
}

func (p *progress) connected(proven bool, marker string, accepted bool) {
	p.mu.Lock()
	p.open, p.proven, p.marker, p.accepted, p.since, p.err = true, proven, marker, accepted, time.Now(), nil
	p.number++
	p.mu.Unlock()
	p.turned()
}

// accept takes note of whether the log of the session that is open is accepted.
func (p *progress) accept(accepted bool) {
	p.mu.Lock()
	was := p.accepted
	p.accepted = accepted
	p.mu.Unlock()
	if was != accepted {
		p.turned()
	}
}

// log is the number of the session that is open, zero if none is, and the marker of
// its log, and whether that is accepted.
func (p *progress) log() (session int, marker string, accepted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return 0, "", false
	}
	return p.number, p.marker, p.accepted
}

// session is the number of the session that is open; zero: none is.
func (p *progress) session() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return 0
	}
	return p.number
}

func (p *progress) marked() {
	p.mu.Lock()
	was := p.ready
	p.ready = true
	p.mu.Unlock()
	if !was {
		p.opened()
	}
}

func (p *progress) ended(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		p.since = time.Now()
	}
	p.open, p.ready = false, false
	if !errors.Is(err, errWalked) {
		p.err = err
	}
}

// known says that a session is open and that the desired content is known.
func (p *progress) known() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// proves says that a session is open whose hub's log continues the one before, and
// that the desired content is known.
func (p *progress) proves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready && p.proven
}

func (p *progress) fill(s *Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Connected, s.Proven, s.Since = p.open, p.proven, p.since
	if p.open && !p.proven {
		s.Awaits = p.marker
	}
	if p.err != nil {
		s.LastError = wire.Brief(p.err.Error())
	}
}
