package hubclient

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"orrery.dev/orrery/internal/lib/atomicfile"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// reachFile, in the data directory, stores the endpoints of the hub.
	reachFile = "hub.json"
	// maxFormer is the maximum number of endpoints from before an announcement.
	maxFormer = 4
)

// endpoint is an endpoint of the hub with its parsed certificates.
type endpoint struct {
	wire.Endpoint
	roots *x509.CertPool // nil for those of the system
}

// reach holds the endpoints of the hub, and the one in use.
//
// The endpoints that the hub announces in a session replace the former ones after a session was
// opened by one of them. Until then the former ones remain, and are used if the announced ones
// do not work. After that no former endpoint is trusted. reach is safe for concurrent use.
type reach struct {
	file string // empty if nothing is stored
	log  *slog.Logger
	// moving is raised when there may be a better endpoint than the one in use.
	moving retry.Signal

	mu   sync.Mutex
	kept kept
	now  endpoint
	// failures counts the attempts in a row to change to a better endpoint.
	failures uint8
	// leave ends the open session when another URL is used; nil if no session is open.
	leave func()
}

// kept is the content of the file.
type kept struct {
	// Join is the digest of the join token. With another token, the content is discarded.
	Join string `json:"join"`
	// Announced are the hub's endpoints in the order of its preference; Confirmed reports
	// whether one of them has worked.
	Announced []wire.Endpoint `json:"announced,omitempty"`
	Digest    string          `json:"digest,omitempty"` // of the hub's announcement
	Confirmed bool            `json:"confirmed,omitempty"`
	// Former are endpoints that worked before, and Used is the one that worked last.
	Former []wire.Endpoint `json:"former,omitempty"`
	Used   wire.Endpoint   `json:"used,omitzero"`
}

// newReach starts with the endpoints stored in a directory, or with that of the join token.
func newReach(join wire.Join, dir string, log *slog.Logger) (*reach, error) {
	r := &reach{log: log, moving: retry.NewSignal()}
	id := sha256.Sum256([]byte(join.Encode()))
	first := kept{Join: hex.EncodeToString(id[:]), Former: []wire.Endpoint{join.Endpoint()}, Used: join.Endpoint()}
	if dir != "" {
		r.file = filepath.Join(dir, reachFile)
		if err := r.load(); err != nil {
			log.Warn("the stored endpoints of the hub cannot be read; the agent uses that of the join token", "error", err)
		}
	}
	if r.kept.Join != first.Join {
		r.kept = first
	}
	if all := r.candidates(); !slices.Contains(all, r.kept.Used) {
		r.kept.Used = all[0]
	}
	var err error
	if r.now, err = usable(r.kept.Used); err != nil {
		return nil, fmt.Errorf("join token: %w", err)
	}
	return r, nil
}

// load reads the file; it returns an error if an endpoint is not valid.
func (r *reach) load() error {
	b, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	for _, e := range slices.Concat(k.Announced, k.Former, []wire.Endpoint{k.Used}) {
		if err == nil {
			err = e.Validate()
		}
	}
	if err == nil {
		r.kept = k
	}
	return err
}

func usable(e wire.Endpoint) (endpoint, error) {
	roots, err := e.Roots()
	return endpoint{e, roots}, err
}

// current returns the endpoint to use.
func (r *reach) current() endpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// digest returns the digest of the hub's announcement.
func (r *reach) digest() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.kept.Digest, "none")
}

// keep stores changed endpoints, and uses them once they are on disk.
func (r *reach) keep(next kept) error {
	b, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode the endpoints of the hub: %w", err)
	}
	if previous, err := json.Marshal(r.kept); err == nil && string(previous) == string(b) {
		return nil
	}
	if r.file != "" {
		if err := atomicfile.WriteFile(r.file, b, 0o600); err != nil {
			return fmt.Errorf("store the endpoints of the hub: %w", err)
		}
	}
	r.kept = next
	return nil
}

// announced adopts the endpoints that the hub has announced in a session. If they cannot be
// stored, the hub announces them again in the next session.
func (r *reach) announced(all wire.Endpoints) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := all.Digest()
	all = all.WithURL(r.now.URL)
	if err := all.Validate(); err != nil {
		return err
	}
	next := r.kept
	next.Digest = digest
	next.Announced, next.Confirmed = all.Endpoints, slices.Contains(all.Endpoints, r.now.Endpoint)
	next.Former = append([]wire.Endpoint{r.now.Endpoint}, r.kept.Former...)
	if r.kept.Confirmed {
		next.Former = next.Former[:1]
	}
	if next.Confirmed {
		next.Former = nil
	}
	next.Former = distinct(next.Former)
	next.Former = next.Former[:min(len(next.Former), maxFormer)]
	if err := r.keep(next); err != nil {
		return err
	}
	r.failures = 0
	r.log.Info("the hub has announced its endpoints", "endpoints", urls(all.Endpoints), "used", r.now.URL)
	r.moving.Raise()
	return nil
}

// worked records that an endpoint works: a session was opened by it, or it was probed.
func (r *reach) worked(e endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.kept
	next.Used = e.Endpoint
	if i := slices.Index(next.Announced, e.Endpoint); i >= 0 {
		next.Confirmed, next.Former = true, nil
		if i == 0 { // preferred endpoints before it have not worked, even if they respond
			r.failures = 0
		}
	}
	if err := r.keep(next); err != nil {
		r.log.Warn("the URL of the hub that works cannot be stored", "error", err)
	}
}

// failed changes to the next endpoint after a session could not be opened by e.
func (r *reach) failed(e endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.Endpoint != e.Endpoint {
		return // another one is in use already
	}
	all := r.candidates()
	i := slices.Index(all, e.Endpoint) + 1 // 0 if e is no longer a candidate
	candidate := all[i%len(all)]
	if candidate == r.now.Endpoint {
		return // there is no other
	}
	next, err := usable(candidate)
	if err != nil { // all candidates were validated
		panic(err)
	}
	r.now = next
	r.log.Info("trying another URL of the hub", "url", next.URL)
}

// candidates returns the endpoints that are tried one after the other.
func (r *reach) candidates() []wire.Endpoint {
	if r.kept.Confirmed {
		return r.kept.Announced
	}
	return distinct(slices.Concat(r.kept.Announced, r.kept.Former))
}

// anew reports whether no preferred endpoint was probed since the last announcement, or since
// the first one has worked.
func (r *reach) anew() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures == 0
}

// better returns the endpoints that the hub prefers to the one in use, while a session is
// open, and the number of attempts including this one.
func (r *reach) better() (all []wire.Endpoint, failures uint8) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leave == nil {
		return nil, 0
	}
	all = r.kept.Announced
	if i := slices.Index(all, r.now.Endpoint); i >= 0 {
		all = all[:i]
	}
	if len(all) > 0 {
		r.failures = min(r.failures+1, retry.MaxFailures)
	}
	return all, r.failures
}

// move changes to an endpoint that has responded. If its URL differs, the session is ended, so
// that the next one is opened there.
func (r *reach) move(e endpoint) {
	r.mu.Lock()
	same := r.now.URL == e.URL
	r.now = e
	leave := r.leave
	r.mu.Unlock()
	r.log.Info("the agent uses another endpoint of the hub", "url", e.URL)
	if same { // only the trusted authorities differ, and the probe has verified the certificate
		r.worked(e)
		return
	}
	if leave != nil {
		leave()
	}
}

// during records that a session is open until done is called. leave ends the session.
func (r *reach) during(leave func()) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave = leave
	r.moving.Raise()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.leave = nil
	}
}

func distinct(all []wire.Endpoint) []wire.Endpoint {
	var once []wire.Endpoint
	for _, e := range all {
		if !slices.Contains(once, e) {
			once = append(once, e)
		}
	}
	return once
}

func urls(all []wire.Endpoint) []string {
	list := make([]string, 0, len(all))
	for _, e := range all {
		list = append(list, e.URL)
	}
	return list
}
