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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// bareCommand makes this binary the bare client.
	bareCommand = "bare-client"
	bareWorkers = 16
)

// bareMain applies ConfigMaps server-side with parallel workers that share one
// connection, through the dynamic client of client-go, as a program does that only
// applies. It prints a line when it is ready, waits for a line, and prints what it took.
//
// With -raw it sends prepared requests and drops the answers instead, which is as
// little work as a client can do.
func bareMain(args []string, in io.Reader, out, log io.Writer) int {
	flags := flag.NewFlagSet(bareCommand, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "of the cluster")
	namespace := flags.String("namespace", "", "of the objects")
	n := flags.Int("n", 0, "how many")
	workers := flags.Int("workers", bareWorkers, "how many objects are applied at once")
	raw := flags.Bool("raw", false, "without client-go")
	err := flags.Parse(args)
	if err == nil {
		how := dynamicApply
		if *raw {
			how = rawApply
		}
		err = bareApply(*kubeconfig, *namespace, *n, *workers, how, in, out)
	}
	if err != nil {
		_, _ = fmt.Fprintln(log, "bare client:", err) // where else to say it
		return 1
	}
	return 0
}

// bareUsage is what the bare client took after the line that it waited for.
type bareUsage struct {
	CPU time.Duration `json:"cpu"`
}

// applier applies the ith object, and newApplier makes one for n of them.
type (
	applier    func(ctx context.Context, i int) error
	newApplier func(ctx context.Context, c *rest.Config, namespace string, n int) (applier, error)
)

func bareApply(kubeconfig, namespace string, n, workers int, newApplier newApplier, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	apply, err := newApplier(ctx, config, namespace, n)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("write the ready line: %w", err)
	}
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return fmt.Errorf("wait for the word: %w", err)
	}
	before, err := ownCPU()
	if err != nil {
		return err
	}
	if err := share(ctx, make([]struct{}, workers), n, func(ctx context.Context, _ struct{}, i int) error { return apply(ctx, i) }); err != nil {
		return err
	}
	after, err := ownCPU()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(bareUsage{CPU: after - before})
}

// dynamicApply applies through client-go's dynamic client; the objects are made,
// and the connection is open, when it returns.
func dynamicApply(ctx context.Context, config *rest.Config, namespace string, n int) (applier, error) {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	to := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	if _, err := to.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, n)
	for i := range objects {
		objects[i] = &unstructured.Unstructured{}
		if err := objects[i].UnmarshalJSON(configMap(namespace, nameOf(i), 1<<10, "wanted")); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, i int) error {
		_, err := to.Apply(ctx, objects[i].GetName(), objects[i], metav1.ApplyOptions{FieldManager: "bare", Force: true})
		return err
	}, nil
}

// rawApply is dynamicApply without client-go.
func rawApply(ctx context.Context, config *rest.Config, namespace string, n int) (applier, error) {
	c, err := newClient(config)
	if err != nil {
		return nil, err
	}
	if _, err := c.get(ctx, "/version"); err != nil {
		return nil, err
	}
	bodies := make([][]byte, n)
	for i := range bodies {
		bodies[i] = configMap(namespace, nameOf(i), 1<<10, "wanted")
	}
	return func(ctx context.Context, i int) error {
		return c.do(ctx, http.MethodPatch, configMaps(namespace)+"/"+nameOf(i)+"?fieldManager=bare&force=true", applyPatch, bodies[i])
	}, nil
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

func startBare(ctx context.Context, kubeconfig, namespace string, n int, flags ...string) (*bareClient, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the bare client: %w", err)
	}
	args := append([]string{bareCommand, "-kubeconfig", kubeconfig, "-namespace", namespace, "-n", strconv.Itoa(n)}, flags...)
	b := &bareClient{cmd: exec.CommandContext(ctx, self, args...)}
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
