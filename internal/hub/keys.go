package hub

import (
	"context"
	"fmt"
	"path/filepath"

	"orrery.dev/orrery/internal/hub/storage/encryption"
	"orrery.dev/orrery/internal/hub/storage/etcd"
)

// keys are those of the log, and the file that they are in.
type keys struct {
	*encryption.Sealer
	file string
}

// openKeys reads the keys of the log, and makes one for a data directory without. Hubs
// that share an external etcd need the same file, so one that is made there is pointed out.
func openKeys(config *Config) (*keys, error) {
	file := config.EncryptionConfig
	if file == "" {
		file = filepath.Join(config.DataDir, encryption.FileName)
		made, err := encryption.Create(file)
		if err != nil {
			return nil, err
		}
		if made && len(config.EtcdServers) > 0 {
			config.Logger.Warn("made a key for Secrets in the log: all hubs that share the etcd need this file", "file", file)
		}
	}
	sealer, err := encryption.Open(file, config.Logger)
	if err != nil {
		return nil, err
	}
	return &keys{sealer, file}, nil
}

// need fails with what the tail of the log says of a value that can't be read.
func (k *keys) need(ctx context.Context, unreadable <-chan error) error {
	select {
	case err := <-unreadable:
		return fmt.Errorf("load the log: %w; the keys that wrote it have to be in %s", err, k.file)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow takes over the keys whenever their file changes, if they read all of the log.
func (k *keys) follow(ctx context.Context, log *etcd.Log) error {
	return k.Follow(ctx, func(ctx context.Context, now *encryption.Keys) error {
		return log.Reencryption().CheckReadable(ctx, now.Covers, now)
	}, log.Reencryption().Request)
}
