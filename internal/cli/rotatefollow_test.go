package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/internal/hub/auth/enroll"
)

// TestFollowedSteps: the kubeconfig of a directory is of its authority after the hub has taken over a step, and
// not before; a command waits for that for a time, and not for a hub that does not listen.
func TestFollowedSteps(t *testing.T) {
	dir := t.TempDir()
	hub, err := enroll.LoadOrCreate(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	foreign, err := enroll.LoadOrCreate(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "admin.kubeconfig")
	config := func(trusts []byte) *clientcmdapi.Config {
		t.Helper()
		pair, err := hub.Client("admin")
		if err != nil {
			t.Fatal(err)
		}
		c := clientcmdapi.NewConfig()
		c.Clusters["hub"] = &clientcmdapi.Cluster{Server: "https://" + listener.Addr().String(), CertificateAuthorityData: trusts}
		c.AuthInfos["hub"] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
		c.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "hub"}
		c.CurrentContext = "hub"
		if err := clientcmd.WriteToFile(*c, file); err != nil {
			t.Fatal(err)
		}
		return c
	}
	r := rotation{dir: dir}
	over, end := context.WithCancel(t.Context())
	end()
	for i, step := range []enroll.Step{enroll.Announce, enroll.Switch, enroll.Finish} {
		before := config(hub.PEM())
		behind := config(foreign.PEM()) // of an advertised URL
		if _, err := enroll.Rotate(dir, step, time.Now()); err != nil {
			t.Fatal(err)
		}
		ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		if isOf(before, ca) || isOf(behind, ca) != (step != enroll.Switch) {
			t.Errorf("%s: the hub has not taken it over, and the kubeconfig is of it", step)
		}
		config(hub.PEM())
		if isLate := awaitReload(over, dir); !isLate {
			t.Errorf("%s: a hub that has not taken it over in time is not late", step)
		}
		late := make(chan bool)
		go func() { late <- awaitReload(t.Context(), dir) }()
		if _, err := hub.Reload(); err != nil {
			t.Fatal(err)
		}
		if !isOf(config(hub.PEM()), ca) || awaitReload(t.Context(), r.dir) {
			t.Errorf("%s: the hub has taken it over, and the kubeconfig is not of it", step)
		}
		if <-late {
			t.Errorf("%s: the command that waited takes the hub for late", step)
		}
		if i == 0 {
			continue
		}
		if err := clientcmd.WriteToFile(*before, file); err != nil {
			t.Fatal(err)
		}
	}
	listener.Close()
	if awaitReload(t.Context(), r.dir) {
		t.Error("a command waits for a hub that does not listen")
	}
}
