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

// ErrUnreadable is returned if no key of the configuration decrypts a value.
var ErrUnreadable = errors.New("no key of the encryption configuration opens it")

const (
	// mark is the prefix of all encrypted values, as in Kubernetes. JSON never starts with it.
	mark = "k8s:enc:"
	// everything stands for all groups, or all resources of a group, in a configuration.
	everything = "*"
	// hubID identifies the hub in metrics of KMS plugins.
	hubID = "orrery-hub"
)

// Keys are the keys of one EncryptionConfiguration. They are safe for concurrent use.
type Keys struct {
	hash         string
	transformers map[schema.GroupResource]value.Transformer
	// close stops the KMS plugins.
	close context.CancelFunc
}

// load reads a configuration. Its KMS plugins run until close is called.
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

// Covers reports whether the configuration names the resource in a key of the log.
func (s *Keys) Covers(k string) bool { return s.transformer(k) != nil }

// transformer returns the transformer for the value of a key; nil if there is none.
func (s *Keys) transformer(k string) value.Transformer {
	r, ok := key.SubjectOf(k)
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

// Seal returns the stored form of a key's value.
func (s *Keys) Seal(ctx context.Context, k string, plain []byte) ([]byte, error) {
	t := s.transformer(k)
	if t == nil {
		return plain, nil
	}
	sealed, err := t.TransformToStorage(ctx, bind(k, plain), value.DefaultContext(k))
	if err != nil {
		return nil, fmt.Errorf("encrypt the value of %q: %w", k, err)
	}
	if !isSealed(sealed) { // the configuration does not encrypt it
		return plain, nil
	}
	return sealed, nil
}

// Open returns the value of a key from its stored form. stale reports that Seal would now return
// another form.
func (s *Keys) Open(ctx context.Context, k string, kept []byte) (plain []byte, stale bool, err error) {
	t := s.transformer(k)
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

// bind puts the key before the value, since the providers secretbox and aescbc do not authenticate
// the context of a value.
func bind(k string, plain []byte) []byte {
	b := make([]byte, 0, len(k)+1+len(plain))
	return append(append(append(b, k...), 0), plain...)
}

// unbind returns the value after its key; false if the key differs.
func unbind(k string, data []byte) ([]byte, bool) {
	n := len(k)
	if len(data) <= n || string(data[:n]) != k || data[n] != 0 {
		return nil, false
	}
	return data[n+1:], true
}

// continues fails unless the keys decrypt all resources that the previous keys encrypt: writes
// continue while the keys are replaced.
func (s *Keys) continues(ctx context.Context, before *Keys) error {
	for _, keys := range []*Keys{before, s} {
		for gr := range keys.transformers {
			k := probeKey(gr)
			kept, err := before.Seal(ctx, k, []byte(`{}`))
			if err != nil {
				return fmt.Errorf("encrypt with the previous keys: %w", err)
			}
			if _, _, err := s.Open(ctx, k, kept); err != nil {
				return fmt.Errorf("values of %q that are written in the meantime could not be read: %w", gr.String(), err)
			}
		}
	}
	return nil
}

// probe encrypts and decrypts a value of each resource.
func (s *Keys) probe(ctx context.Context) error { return s.continues(ctx, s) }

// probeKey returns the key of an object that does not exist, for a resource in a configuration.
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
