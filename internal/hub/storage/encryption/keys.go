package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"

	"orrery.dev/orrery/internal/protocol/key"
)

// ErrUnreadable says that no key of the configuration opens a value.
var ErrUnreadable = errors.New("no key of the encryption configuration opens it")

const (
	// mark is how every value begins that is sealed, as Kubernetes writes it. No JSON
	// begins so.
	mark = "k8s:enc:"
	// everything stands for all groups, or all resources of one, in a configuration.
	everything = "*"
	// hubID tells API servers apart in metrics of KMS plugins.
	hubID = "orrery-hub"
)

// Keys are what one EncryptionConfiguration says. They are safe for concurrent use.
type Keys struct {
	hash         string
	transformers map[schema.GroupResource]value.Transformer
	// close ends what follows KMS plugins.
	close context.CancelFunc
}

// load reads a configuration. What follows KMS plugins runs until close is called.
func load(ctx context.Context, file string) (*Keys, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load the encryption configuration: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	config, err := encryptionconfig.LoadEncryptionConfig(ctx, file, true, hubID)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("load the encryption configuration: %w", redacted(err, file, text))
	}
	return &Keys{hash: config.EncryptionFileContentHash, transformers: config.Transformers, close: cancel}, nil
}

// Covers says whether the configuration names the resource that a key of the log is
// about.
func (s *Keys) Covers(k string) bool { return s.of(k) != nil }

// of is what seals the value of a key; nil: nothing does.
func (s *Keys) of(k string) value.Transformer {
	r, ok := key.About(k)
	if !ok {
		return nil
	}
	group := r.APIGroup()
	if t := s.transformers[schema.GroupResource{Group: group, Resource: r.Resource}]; t != nil {
		return t
	}
	if t := s.transformers[schema.GroupResource{Group: group, Resource: everything}]; t != nil {
		return t
	}
	return s.transformers[schema.GroupResource{Group: everything, Resource: everything}]
}

// Seal is how a value of a key is kept.
func (s *Keys) Seal(ctx context.Context, k string, plain []byte) ([]byte, error) {
	t := s.of(k)
	if t == nil {
		return plain, nil
	}
	sealed, err := t.TransformToStorage(ctx, bind(k, plain), value.DefaultContext(k))
	if err != nil {
		return nil, fmt.Errorf("encrypt the value of %q: %w", k, err)
	}
	if !isSealed(sealed) { // the configuration has it kept as it is
		return plain, nil
	}
	return sealed, nil
}

// Open gives the value of a key from how it is kept. stale says that it would be kept
// in another way now.
func (s *Keys) Open(ctx context.Context, k string, kept []byte) (plain []byte, stale bool, err error) {
	t := s.of(k)
	if t == nil {
		if isSealed(kept) {
			return nil, false, fmt.Errorf("decrypt %q: %w: it does not name this resource", k, ErrUnreadable)
		}
		return kept, false, nil
	}
	data, stale, err := t.TransformFromStorage(ctx, kept, value.DefaultContext(k))
	if err != nil {
		return nil, false, fmt.Errorf("decrypt %q: %w: %w", k, ErrUnreadable, err)
	}
	if !isSealed(kept) {
		return data, stale, nil
	}
	plain, ok := unbind(k, data)
	if !ok {
		return nil, false, fmt.Errorf("decrypt %q: %w: it was written for another key of the log", k, ErrUnreadable)
	}
	return plain, stale, nil
}

func isSealed(kept []byte) bool { return bytes.HasPrefix(kept, []byte(mark)) }

// bind puts the key of a value before it: of the providers there are, secretbox and
// aescbc do not authenticate what a value is about by themselves.
func bind(k string, plain []byte) []byte {
	b := make([]byte, 0, len(k)+1+len(plain))
	return append(append(append(b, k...), 0), plain...)
}

// unbind is the value behind its key; false: it is another's.
func unbind(k string, data []byte) ([]byte, bool) {
	n := len(k)
	if len(data) <= n || string(data[:n]) != k || data[n] != 0 {
		return nil, false
	}
	return data[n+1:], true
}

// continues fails unless the keys open what others write now, of whatever resource:
// while they replace those, writes go on.
func (s *Keys) continues(ctx context.Context, before *Keys) error {
	for _, of := range []*Keys{before, s} {
		for gr := range of.transformers {
			k := probeKey(gr)
			kept, err := before.Seal(ctx, k, []byte(`{}`))
			if err != nil {
				return fmt.Errorf("try the keys of before: %w", err)
			}
			if _, _, err := s.Open(ctx, k, kept); err != nil {
				return fmt.Errorf("what is written for %q until then could not be read: %w", gr.String(), err)
			}
		}
	}
	return nil
}

// probe seals and opens something of each resource.
func (s *Keys) probe(ctx context.Context) error { return s.continues(ctx, s) }

// probeKey is the key of an object that is not there, of a resource that a
// configuration names.
func probeKey(gr schema.GroupResource) string {
	const some = "some"
	if gr.Group == everything {
		gr.Group = some
	}
	if gr.Resource == everything {
		gr.Resource = some
	}
	return key.Object{Space: some, Identity: key.Identity{Resource: key.NewResource(gr.Group, gr.Resource), Name: some}}.Key()
}
