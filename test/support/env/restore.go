package env

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
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

func saveSnapshot(t T, url, file string) (err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	from, err := client.Snapshot(t.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// Restore stops the API server and etcd, restores etcd from a snapshot, and starts both again, as the
// operator of a cluster does. Before the API server starts, writes further revisions are written.
func (c *Cluster) Restore(snapshot string, writes int) {
	c.t.Helper()
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
func writeRevisions(t T, url string, writes int) (err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	for range writes {
		if _, err := client.Put(t.Context(), "/none", ""); err != nil {
			return err
		}
	}
	return nil
}

// Rebuild stops the API server and etcd, and starts an empty cluster at the same address.
func (c *Cluster) Rebuild() {
	c.t.Helper()
	c.APIServer.Kill()
	c.etcd.Kill()
	if err := os.RemoveAll(c.etcd.dir); err != nil {
		c.t.Fatalf("rebuild cluster %q: %v", c.Name, err)
	}
	c.etcd.Start()
	c.StartAPIServer()
}
