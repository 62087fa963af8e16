package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"orrery.dev/orrery/internal/lib/process"
	"orrery.dev/orrery/internal/protocol/route"
)

// profileSocket is the Unix socket in the data directory on which a running agent serves its
// profiles. Only the agent's user can connect.
const profileSocket = "profiles.sock"

// serveProfiles serves the agent's profiles until the returned function is called. The caller
// must have locked the data directory: the socket of an earlier process is replaced. If the
// socket cannot be served, the agent runs without it.
func serveProfiles(dataDir string, log *slog.Logger) (stop func()) {
	path := filepath.Join(dataDir, profileSocket)
	listener, err := listenPrivate(path)
	if err != nil {
		log.Warn("profiles are not served", "error", err)
		return func() {}
	}
	server := &http.Server{Handler: http.StripPrefix(route.Profiles, process.ProfileHandler()), ReadHeaderTimeout: stopTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("profiles are no longer served", "error", err)
		}
	}()
	return func() {
		_ = server.Close() // the process ends in any case
		<-done
	}
}

// listenPrivate listens on a Unix socket to which only the user of this process may connect.
// The mode is set before the socket can be reached.
func listenPrivate(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	const private = 0o600
	listen := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// The mode of a socket before bind becomes the mode of its file.
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), private) })
	}}
	listener, err := listen.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, private); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

func newProfile(dataDir *string) *cobra.Command {
	seconds := 0
	c := &cobra.Command{
		Use: "profile " + strings.Join(process.ProfileNames(), "|"), Short: "Print a profile of the agent that runs on a data directory, for go tool pprof",
		Example: `  orrery-agent profile heap > heap.pprof
  orrery-agent profile --seconds 10 profile > cpu.pprof`,
		Args: cobra.ExactArgs(1), ValidArgs: process.ProfileNames(),
		RunE: func(c *cobra.Command, args []string) error {
			return printProfile(c.Context(), c.OutOrStdout(), *dataDir, args[0], seconds)
		},
	}
	c.Flags().IntVar(&seconds, "seconds", 0, "how long processor time is measured (default 30)")
	return c
}

// printProfile requests a profile from the agent that runs on a data directory, and writes it.
func printProfile(ctx context.Context, out io.Writer, dataDir, name string, seconds int) error {
	query := url.Values{}
	if seconds > 0 {
		query.Set("seconds", strconv.Itoa(seconds))
	}
	// The transport dials the socket and ignores the host.
	target := url.URL{Scheme: "http", Host: "agent", Path: route.Profiles + name, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("profile %q: %w", name, err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dataDir, profileSocket))
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("connect to the agent that runs on data directory %q: %w", dataDir, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // a partial message is better than none
		return fmt.Errorf("profile %q: %s", name, strings.TrimSpace(string(reason)))
	}
	if _, err := io.Copy(out, resp.Body); err != nil {
		return fmt.Errorf("profile %q: %w", name, err)
	}
	return nil
}
