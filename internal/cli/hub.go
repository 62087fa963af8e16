package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"orrery.dev/orrery/internal/hub"
)

func newHub(streams genericiooptions.IOStreams) *cobra.Command {
	config := hub.DefaultConfig()
	level := "info"
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Run a hub",
		Long: `Run a hub until it is told to stop (SIGTERM or SIGINT).

When it serves it prints one line to standard output, with its URL and the file
of the operator's kubeconfig. Its log goes to standard error.
` + exitCodes,
		Example: `  orrery hub --data-dir /var/lib/orrery --listen 0.0.0.0:8443 --advertise https://hub.example:8443
  export KUBECONFIG=/var/lib/orrery/admin.kubeconfig`,
		Args: want(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(streams.ErrOut, level)
			if err != nil {
				return badUsage(cmd, "%v", err)
			}
			if err := config.Validate(); err != nil {
				return badUsage(cmd, "%v", err)
			}
			config.Logger = logger
			klog.SetSlogLogger(logger) // what the libraries of Kubernetes have to say
			return hub.Run(cmd.Context(), config, func(ready hub.Ready) {
				cmd.Printf("orrery hub ready: %s (kubeconfig %s)\n", ready.URL, ready.Kubeconfig)
			})
		},
	}
	cmd.AddCommand(newHubBackup(), newHubRestore(streams))
	flags := cmd.Flags()
	flags.StringVar(&config.DataDir, "data-dir", config.DataDir, "directory of the log, the certificate authority and admin.kubeconfig")
	flags.StringVar(&config.Listen, "listen", config.Listen, "address to serve on, HOST:PORT; port 0 chooses one")
	flags.StringVar(&config.Advertise, "advertise", "", "URL under which clients and agents reach the hub (default made from --listen)")
	flags.StringSliceVar(&config.EtcdServers, "etcd-servers", nil, "client URLs of an external etcd (default an embedded one)")
	flags.Int64Var(&config.Quota, "etcd-quota-bytes", 0, "how large the log may become, in bytes (default 8 GiB; of an external etcd what it says)")
	flags.DurationVar(&config.Heartbeat, "heartbeat", config.Heartbeat, "how often agents hear from the hub on a quiet session")
	flags.DurationVar(&config.Disconnected, "disconnected-after", config.Disconnected, "how long without a session until a location counts as disconnected")
	flags.IntVar(&config.MaxReads, "max-requests-inflight", config.MaxReads, "how many requests that read are worked on at once; the rest waits, space by space")
	flags.IntVar(&config.MaxWrites, "max-mutating-requests-inflight", config.MaxWrites, "how many requests that write are worked on at once; the rest waits, space by space")
	flags.StringVar(&level, "log-level", level, "debug, info, warn or error")
	flags.BoolVar(&config.UnsafeNoFsync, "unsafe-no-fsync", false, "do not sync the embedded etcd to disk: a power cut loses what was acknowledged")
	flags.IntVar(&config.WindowRevisions, "window-revisions", config.WindowRevisions, "how many revisions watchers can go back")
	flags.DurationVar(&config.CompactEvery, "compact-every", config.CompactEvery, "how often history that left the window is forgotten")
	for _, name := range []string{"unsafe-no-fsync", "window-revisions", "compact-every"} {
		_ = flags.MarkHidden(name) // the flag exists; it is for tests and benchmarks
	}
	return cmd
}

// newLogger makes a logger of a level's name.
func newLogger(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		return nil, fmt.Errorf("log level %q: want debug, info, warn or error", level)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}
