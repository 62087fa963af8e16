package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

const (
	// bareCommand makes this binary the bare client.
	bareCommand = "bare-client"
	bareWorkers = 16
)

// bareMain applies ConfigMaps server-side with parallel workers that share one
// connection, as little work as a client can do. It says that it is ready, waits
// for a line, and says what it took.
func bareMain(args []string, in io.Reader, out, log io.Writer) int {
	flags := flag.NewFlagSet(bareCommand, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "of the cluster")
	namespace := flags.String("namespace", "", "of the objects")
	n := flags.Int("n", 0, "how many")
	err := flags.Parse(args)
	if err == nil {
		err = bareApply(*kubeconfig, *namespace, *n, in, out)
	}
	if err != nil {
		fmt.Fprintln(log, "bare client:", err)
		return 1
	}
	return 0
}

// bareUsage is what the bare client took from the line it waited for on.
type bareUsage struct {
	CPU time.Duration `json:"cpu"`
}

func bareApply(kubeconfig, namespace string, n int, in io.Reader, out io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c, err := newClient(config)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if _, err := c.get(ctx, "/version"); err != nil {
		return err
	}
	bodies := make([][]byte, n)
	for i := range bodies {
		bodies[i] = configMap(namespace, nameOf(i), 1<<10, "wanted")
	}
	workers := make([]*client, bareWorkers)
	for i := range workers {
		workers[i] = c
	}
	fmt.Fprintln(out, "ready")
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return fmt.Errorf("wait for the word: %w", err)
	}
	before, err := ownCPU()
	if err != nil {
		return err
	}
	if err := share(ctx, workers, n, func(ctx context.Context, c *client, i int) error {
		return c.do(ctx, http.MethodPatch, configMaps(namespace)+"/"+nameOf(i)+"?fieldManager=bare&force=true", applyPatch, bodies[i])
	}); err != nil {
		return err
	}
	after, err := ownCPU()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(bareUsage{CPU: after - before})
}

// ownCPU is the user and system time of this process.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read the CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// bareClient is a bare client that waits for the word to begin.
type bareClient struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startBare(ctx context.Context, kubeconfig, namespace string, n int) (*bareClient, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the bare client: %w", err)
	}
	b := &bareClient{cmd: exec.CommandContext(ctx, self, bareCommand,
		"-kubeconfig", kubeconfig, "-namespace", namespace, "-n", strconv.Itoa(n))}
	b.cmd.Stderr = os.Stderr
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the bare client: %w", err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the bare client: %w", err)
	}
	b.out = bufio.NewReader(out)
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the bare client: %w", err)
	}
	if _, err := b.out.ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("the bare client is not ready: %w", err), b.cmd.Wait())
	}
	return b, nil
}

// begin gives the word.
func (b *bareClient) begin() error {
	if _, err := io.WriteString(b.in, "go\n"); err != nil {
		return fmt.Errorf("tell the bare client to begin: %w", err)
	}
	return nil
}

// end waits for the client to end and returns what it took.
func (b *bareClient) end() (bareUsage, error) {
	var u bareUsage
	err := json.NewDecoder(b.out).Decode(&u)
	if err := errors.Join(err, b.cmd.Wait()); err != nil {
		return u, fmt.Errorf("bare client: %w", err)
	}
	return u, nil
}
