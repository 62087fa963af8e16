package kubectl

import (
	"bufio"
	"bytes"
	"os/exec"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// TestRevokedUnderAWatch: a watch of kubectl ends when the Grant goes that allowed it.
func TestRevokedUnderAWatch(t *testing.T) {
	hub := env.StartHub(t, "--unsafe-no-fsync")
	env.CreateSpace(t, hub.Kubeconfig, "shop")
	kubeconfig := hub.PathKubeconfig("spaces/shop")
	kubectl := func(input string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), env.Binary(t, "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
		cmd.Stdin = bytes.NewBufferString(input)
		return cmd
	}
	run := func(input string, args ...string) {
		t.Helper()
		if out, err := kubectl(input, args...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %q: %v\n%s", args, err, out)
		}
	}
	run(`{"apiVersion":"orrery.dev/v1alpha1","kind":"Grant","metadata":{"name":"jane"},"spec":{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"view"}]}}`, "create", "-f", "-")
	run("", "create", "configmap", "one")

	watch := kubectl("", "get", "configmaps", "--watch", "--no-headers", "--as=jane")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the watch shows nothing: %v", watch.Wait())
	}
	run("", "create", "configmap", "two")
	if !lines.Scan() { // so that it watches, and does not still list
		t.Fatalf("the watch shows one object: %v", watch.Wait())
	}
	run("", "delete", "grant", "jane")
	revoked := time.Now()
	late := time.AfterFunc(soon, func() { _ = watch.Process.Kill() })
	for lines.Scan() { // until it ends
	}
	if !late.Stop() {
		t.Fatalf("the watch goes on %s after what allowed it is gone", soon)
	}
	_ = watch.Wait() // how kubectl takes the end does not matter
	t.Logf("ended after %s", time.Since(revoked))
}
