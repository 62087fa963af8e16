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
	// reachFile has what the hub has announced, in the data directory.
	reachFile = "hub.json"
	// maxFormer is how many endpoints from before an announcement are kept.
	maxFormer = 4
)

// endpoint is a way to the hub that can be used.
type endpoint struct {
	wire.Endpoint
	roots *x509.CertPool // nil: those of the system
}

// reach knows under which URLs the hub is reached, and which of them is used.
//
// What the hub announces in a session replaces what was known, but not before a session
// was opened by it: until then what had worked is kept, and used if the new does not work.
// From then on nothing of before is trusted any more. It is safe for concurrent use.
type reach struct {
	file string // empty: nothing is kept
	log  *slog.Logger
	// moving is raised when there may be a better endpoint than the one in use.
	moving retry.Signal

	mu   sync.Mutex
	kept kept
	now  endpoint
	// failures counts the attempts in a row to go to a better endpoint.
	failures uint8
	// leave ends the open session when another URL is to be used; nil: none is open.
	leave func()
}

// kept is what is on disk.
type kept struct {
	// Join is the digest of the join token that this goes back to: another one begins anew.
	Join string `json:"join"`
	// Announced are the hub's endpoints, the one that it prefers first; Confirmed says that
	// one of them has worked.
	Announced []wire.Endpoint `json:"announced,omitempty"`
	Digest    string          `json:"digest,omitempty"` // of what the hub has said
	Confirmed bool            `json:"confirmed,omitempty"`
	// Former worked before, and Used is the one that worked last.
	Former []wire.Endpoint `json:"former,omitempty"`
	Used   wire.Endpoint   `json:"used,omitzero"`
}

// newReach begins with what a directory has, or with the join token's endpoint.
func newReach(join wire.Join, dir string, log *slog.Logger) (*reach, error) {
	r := &reach{log: log, moving: retry.NewSignal()}
	id := sha256.Sum256([]byte(join.Encode()))
	first := kept{Join: hex.EncodeToString(id[:]), Former: []wire.Endpoint{join.Endpoint()}, Used: join.Endpoint()}
	if dir != "" {
		r.file = filepath.Join(dir, reachFile)
		if err := r.load(); err != nil {
			log.Warn("where the hub is can't be read; beginning with the join token", "error", err)
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

// load reads what was kept; an endpoint that is damaged is an error.
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

// current is the endpoint to use.
func (r *reach) current() endpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// digest names what the hub has announced.
func (r *reach) digest() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.kept.Digest, "none")
}

// keep puts what is known on disk, if it has changed, and goes by it once it is there.
func (r *reach) keep(next kept) error {
	b, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode where the hub is: %w", err)
	}
	if was, err := json.Marshal(r.kept); err == nil && string(was) == string(b) {
		return nil
	}
	if r.file != "" {
		if err := atomicfile.WriteFile(r.file, b, 0o600); err != nil {
			return fmt.Errorf("keep where the hub is: %w", err)
		}
	}
	r.kept = next
	return nil
}

// announced takes over what the hub has said in a session. What can't be kept is heard
// again in the next session.
func (r *reach) announced(said wire.Endpoints) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := said.Digest()
	said = said.At(r.now.URL)
	if err := said.Validate(); err != nil {
		return err
	}
	next := r.kept
	next.Digest = digest
	next.Announced, next.Confirmed = said.Endpoints, slices.Contains(said.Endpoints, r.now.Endpoint)
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
	r.log.Info("the hub has announced where it is", "endpoints", urls(said.Endpoints), "used", r.now.URL)
	r.moving.Raise()
	return nil
}

// worked notes that a session was opened by an endpoint, or that it is as good as that.
func (r *reach) worked(e endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.kept
	next.Used = e.Endpoint
	if i := slices.Index(next.Announced, e.Endpoint); i >= 0 {
		next.Confirmed, next.Former = true, nil
		if i == 0 { // those before it have not worked, also if they answer
			r.failures = 0
		}
	}
	if err := r.keep(next); err != nil {
		r.log.Warn("which URL of the hub works can't be kept", "error", err)
	}
}

// failed goes on to the next endpoint, if a session could not be opened by the one in use.
func (r *reach) failed(e endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.Endpoint != e.Endpoint {
		return // another one is tried already
	}
	all := r.candidates()
	i := slices.Index(all, e.Endpoint) + 1 // of one that is not a candidate any more: the first
	candidate := all[i%len(all)]
	if candidate == r.now.Endpoint {
		return // there is no other
	}
	next, err := usable(candidate)
	if err != nil { // all were checked
		panic(err)
	}
	r.now = next
	r.log.Info("trying another URL of the hub", "url", next.URL)
}

// candidates are the endpoints that may be tried, one after the other.
func (r *reach) candidates() []wire.Endpoint {
	if r.kept.Confirmed {
		return r.kept.Announced
	}
	return distinct(slices.Concat(r.kept.Announced, r.kept.Former))
}

// anew says that nothing was tried since the hub has announced something, or since what
// it prefers has worked.
func (r *reach) anew() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures == 0
}

// better are the endpoints that the hub prefers to the one in use, while a session is
// open, and how often they have been tried with this time.
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

// move goes on with an endpoint that has answered. If it has another URL the session is
// left, so that the next one is opened there.
func (r *reach) move(e endpoint) {
	r.mu.Lock()
	same := r.now.URL == e.URL
	r.now = e
	leave := r.leave
	r.mu.Unlock()
	r.log.Info("going on with another endpoint of the hub", "url", e.URL)
	if same { // what else is new is by what its certificate is verified, and it was
		r.worked(e)
		return
	}
	if leave != nil {
		leave()
	}
}

// during notes that a session is open, until done is called. A call of leave ends it.
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
