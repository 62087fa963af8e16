package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/lib/atomicfile"
	"orrery.dev/orrery/internal/protocol/route"
)

// maxRefusal is the maximum number of bytes that are read of an error response.
const maxRefusal = 64 << 10

func newHubBackup() *cobra.Command {
	c := newConnection(false)
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the log of a running hub to a file",
		Long: `Copy the log of a running hub to a file, as it is at one revision; the hub goes
on meanwhile. The file is an etcd snapshot, also of an external etcd. It has all
Secrets of all spaces, encrypted as they are in the log, and only its owner may
read it. FILE is replaced when the copy is whole.

The authority of the hub, ca.crt and ca.key in its data directory, is not in it,
nor are the keys of the log, encryption.yaml: without these no Secret in the copy
can be read. Copy them once, and after each change of the keys, to another place.
` + exitCodes,
		Example: `  orrery hub backup orrery.db --kubeconfig /var/lib/orrery/admin.kubeconfig`,
		Args:    want(1, 1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := c.open("")
			if err != nil {
				return err
			}
			size, err := h.backup(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			cmd.Printf("%s: %d bytes\n", args[0], size)
			return nil
		},
	}
	c.addFlags(cmd.Flags())
	return cmd
}

// getBackup requests a copy of the log. If the hub can't send all of it, a trailer of the response
// has the error. The trailer is available after the body has been read.
func (h *hubClient) getBackup(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.rest.Get().AbsPath(route.Backup).URL().String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask for a backup: %w", err)
	}
	req.Header.Set("TE", "trailers")
	resp, err := h.rest.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for a backup: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }() // only the content of the response matters
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return nil, fmt.Errorf("ask for a backup: %w", err)
	}
	refused := &apierrors.StatusError{}
	if json.Unmarshal(body, &refused.ErrStatus) != nil || refused.ErrStatus.Message == "" {
		return nil, fmt.Errorf("ask for a backup: the hub answered %s", resp.Status)
	}
	return nil, refused
}

// backup replaces file by a copy of the log. The file is replaced when the copy is complete and
// synced to disk.
func (h *hubClient) backup(ctx context.Context, file string) (size int64, err error) {
	resp, err := h.getBackup(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	dir := filepath.Dir(file)
	temporary, err := os.CreateTemp(dir, "."+filepath.Base(file)+".*") // readable only by its owner
	if err != nil {
		return 0, fmt.Errorf("make the backup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, temporary.Close(), os.Remove(temporary.Name()))
		}
	}()
	if size, err = io.Copy(temporary, resp.Body); err != nil {
		return 0, fmt.Errorf("receive the backup: %w", err)
	}
	if failure := resp.Trailer.Get(hub.BackupError); failure != "" {
		return 0, fmt.Errorf("receive the backup: %s", failure)
	}
	if err = etcd.CheckBackup(temporary); err != nil {
		return 0, err
	}
	if err = temporary.Sync(); err != nil {
		return 0, fmt.Errorf("write the backup: %w", err)
	}
	if err = os.Rename(temporary.Name(), file); err != nil {
		return 0, fmt.Errorf("write the backup: %w", err)
	}
	if closed := temporary.Close(); closed != nil {
		return 0, fmt.Errorf("write the backup: %w", closed)
	}
	return size, atomicfile.SyncDir(dir)
}

func newHubRestore(streams genericiooptions.IOStreams) *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "restore FILE --data-dir DIR",
		Short: "Restore the log of a stopped hub from a backup",
		Long: `Restore the embedded log of a stopped hub from a backup, into a data directory
that has none: move DIR/etcd away first, and put ca.crt, ca.key and the
encryption.yaml of the time of the backup there if they are lost. Then start the
hub. Agents hold back changes and removals that they
can't prove until their locations are accepted: see "orrery location accept --help".

The revisions of the log continue far above those of the copy, so that no revision
is used twice. Restore the log of an external etcd by etcdutl instead.
` + exitCodes,
		Example: `  mv /var/lib/orrery/etcd /var/lib/orrery/etcd.old
  orrery hub restore orrery.db --data-dir /var/lib/orrery`,
		Args: want(1, 1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return badUsage(cmd, "no --data-dir given")
			}
			logger, err := newLogger(streams.ErrOut, "warn")
			if err != nil {
				return err
			}
			if err := etcd.Restore(args[0], dir, logger); err != nil {
				return err
			}
			cmd.Printf("restored: start the hub on %s\n", dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "data directory of the hub")
	return cmd
}
