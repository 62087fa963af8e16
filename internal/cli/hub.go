package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/lib/process"
)

func newHub(streams genericiooptions.IOStreams) *cobra.Command {
	config := hub.DefaultConfig()
	level := "info"
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Run a hub",
		Long: `Run a hub until it receives SIGTERM or SIGINT.

When the hub is ready, it prints one line to standard output, with its URL and the
file of the operator's kubeconfig. It writes its log to standard error.
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
			config.Logger, config.Memory = logger, process.AvailableMemory(os.DirFS("/"))
			process.LimitMemory(config.Memory)
			klog.SetSlogLogger(logger) // for the Kubernetes libraries
			logger.Info("starting", "version", process.Version())
			return hub.Run(cmd.Context(), config, func(ready hub.Ready) {
				cmd.Printf("orrery hub ready: %s (kubeconfig %s)\n", ready.URL, ready.Kubeconfig)
			})
		},
	}
	cmd.AddCommand(newHubBackup(), newHubRestore(streams), newHubRotateCA())
	flags := cmd.Flags()
	flags.StringVar(&config.DataDir, "data-dir", config.DataDir, "directory of the log, the certificate authority and admin.kubeconfig")
	flags.StringVar(&config.Listen, "listen", config.Listen, "address to serve on, HOST:PORT; port 0 chooses one")
	flags.StringArrayVar(&config.Advertise, "advertise", nil, "[NAME=]URL under which clients and agents reach the hub, the default first; may be repeated (default made from --listen)")
	flags.StringArrayVar(&config.AdvertiseCA, "advertise-ca", nil, "NAME=FILE of the certificates that clients trust at an advertised URL, or NAME=system; may be repeated (default the hub's own authority)")
	flags.StringSliceVar(&config.EtcdServers, "etcd-servers", nil, "client URLs of an external etcd (default an embedded one)")
	flags.StringVar(&config.EtcdCA, "etcd-cafile", "", "file of the certificates by which an external etcd is verified")
	flags.StringVar(&config.EtcdCert, "etcd-certfile", "", "file of the client certificate that an external etcd is shown")
	flags.StringVar(&config.EtcdKey, "etcd-keyfile", "", "file of the key of that certificate")
	flags.StringVar(&config.EncryptionConfig, "encryption-provider-config", "", "file of an EncryptionConfiguration, by which Secrets are encrypted in the log (default encryption.yaml in the data directory, created at the first start)")
	flags.Int64Var(&config.Quota, "etcd-quota-bytes", 0, "maximum size of the log, in bytes (default 8 GiB, or a quarter of the memory that there is; for an external etcd, its own quota)")
	flags.StringVar(&config.AuthenticationConfig, "authentication-config", "", "file of an AuthenticationConfiguration: the OpenID issuers that users sign in at; read again when it changes")
	flags.StringVar(&config.Audit.PolicyFile, "audit-policy-file", "", "file of a Policy of audit.k8s.io: which requests are logged, and how much of them")
	flags.StringVar(&config.Audit.Path, "audit-log-path", "", "file of the audit log")
	flags.IntVar(&config.Audit.MaxSize, "audit-log-maxsize", config.Audit.MaxSize, "size of the audit log in megabytes at which another file is begun")
	flags.IntVar(&config.Audit.MaxBackups, "audit-log-maxbackup", config.Audit.MaxBackups, "number of former files of the audit log that are kept; 0: all")
	flags.IntVar(&config.Audit.MaxAge, "audit-log-maxage", config.Audit.MaxAge, "days for which former files of the audit log are kept; 0: for ever")
	flags.DurationVar(&config.Heartbeat, "heartbeat", config.Heartbeat, "interval of heartbeats on a quiet session with an agent")
	flags.DurationVar(&config.Disconnected, "disconnected-after", config.Disconnected, "time without a session after which a location is disconnected")
	flags.DurationVar(&config.Lease, "hub-lease", config.Lease, "time without an answer of an external etcd after which other hubs take over from this one, and it ends its sessions")
	flags.DurationVar(&config.CredentialLife, "agent-certificate-lifetime", config.CredentialLife, "lifetime of the certificate of an agent, which renews it after two thirds of that")
	flags.DurationVar(&config.CredentialLate, "agent-renewal-after-expiry", config.CredentialLate, "time after its end for which an agent that was away can still renew its certificate; 0: not at all")
	flags.IntVar(&config.MaxReads, "max-requests-inflight", config.MaxReads, "maximum number of reading requests worked on at once; others wait, space by space")
	flags.IntVar(&config.MaxWrites, "max-mutating-requests-inflight", config.MaxWrites, "maximum number of writing requests worked on at once; others wait, space by space")
	flags.IntVar(&config.MaxWatches, "max-watches", config.MaxWatches, "maximum number of open watches, of which one space has three quarters at most")
	flags.StringVar(&level, "log-level", level, "debug, info, warn or error")
	flags.BoolVar(&config.UnsafeNoFsync, "unsafe-no-fsync", false, "do not sync the embedded etcd to disk: a power cut loses what was acknowledged")
	flags.IntVar(&config.WindowRevisions, "window-revisions", config.WindowRevisions, "how many revisions watchers can go back")
	flags.DurationVar(&config.CompactEvery, "compact-every", config.CompactEvery, "how often history that left the window is forgotten")
	for _, name := range []string{"unsafe-no-fsync", "window-revisions", "compact-every"} {
		_ = flags.MarkHidden(name) // for tests and benchmarks; MarkHidden fails only for unknown flags
	}
	return cmd
}

// newLogger returns a logger that writes text to w; level is debug, info, warn or error.
func newLogger(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		return nil, fmt.Errorf("log level %q: want debug, info, warn or error", level)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}
