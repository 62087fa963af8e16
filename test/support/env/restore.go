package env

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// Snapshot writes a snapshot of the cluster's etcd to a file and returns its name.
func (c *Cluster) Snapshot() (file string) {
	c.t.Helper()
	file = filepath.Join(c.t.TempDir(), "snapshot.db")
	if err := saveSnapshot(c.t, c.etcd.URL, file); err != nil {
		c.t.Fatalf("take a snapshot of cluster %q: %v", c.Name, err)
	}
	return file
}

// saveSnapshot reads a snapshot by the JSON gateway of etcd: etcd's client would be a dependency of all
// modules that use this package.
func saveSnapshot(t T, url, file string) (err error) {
	answer, err := askEtcd(t.Context(), url+"/v3/maintenance/snapshot", struct{}{})
	if err != nil {
		return err
	}
	defer answer.Close()
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	for from := json.NewDecoder(answer); ; {
		var chunk struct {
			Result struct {
				Blob []byte `json:"blob"`
			} `json:"result"`
			Error json.RawMessage `json:"error"`
		}
		switch err := from.Decode(&chunk); {
		case errors.Is(err, io.EOF):
			return to.Close()
		case err != nil:
			return errors.Join(err, to.Close())
		case chunk.Error != nil:
			return errors.Join(fmt.Errorf("etcd: %s", chunk.Error), to.Close())
		}
		if _, err := to.Write(chunk.Result.Blob); err != nil {
			return errors.Join(err, to.Close())
		}
	}
}

// askEtcd sends a request to the JSON gateway of etcd and returns the body of the answer.
func askEtcd(ctx context.Context, url string, request any) (io.ReadCloser, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("etcd: %s", answer.Status), answer.Body.Close())
	}
	return answer.Body, nil
}

// Restore stops the API server and etcd, restores etcd from a snapshot, and starts both again, as the
// operator of a cluster does. Before the API server starts, writes further revisions are written.
func (c *Cluster) Restore(snapshot string, writes int) {
	c.t.Helper()
	c.isReplaced = true
	c.APIServer.Kill()
	c.etcd.Kill()
	c.etcd.Restore(snapshot)
	c.etcd.Start()
	if err := writeRevisions(c.t, c.etcd.URL, writes); err != nil {
		c.t.Fatalf("write to the etcd of cluster %q: %v", c.Name, err)
	}
	c.StartAPIServer()
}

// writeRevisions writes a key that no API server reads, so often.
func writeRevisions(t T, url string, writes int) error {
	for range writes {
		answer, err := askEtcd(t.Context(), url+"/v3/kv/put", map[string][]byte{"key": []byte("/none")})
		if err != nil {
			return err
		}
		if err := answer.Close(); err != nil {
			return err
		}
	}
	return nil
}

// KillEtcd ends the cluster's etcd by SIGKILL. The other processes continue.
func (c *Cluster) KillEtcd() {
	c.t.Helper()
	c.isReplaced = true
	c.etcd.Kill()
}

// StartEtcd starts etcd after KillEtcd, at the same address and with the same data, and waits until it is healthy.
func (c *Cluster) StartEtcd() {
	c.t.Helper()
	c.etcd.Start()
}

// Rebuild stops the API server and etcd, and starts an empty cluster at the same address.
func (c *Cluster) Rebuild() {
	c.t.Helper()
	c.isReplaced = true
	c.APIServer.Kill()
	c.etcd.Kill()
	if err := os.RemoveAll(c.etcd.dir); err != nil {
		c.t.Fatalf("rebuild cluster %q: %v", c.Name, err)
	}
	c.etcd.Start()
	c.StartAPIServer()
}
