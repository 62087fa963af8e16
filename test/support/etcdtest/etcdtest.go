// Package etcdtest runs an etcd in the process of a test, which several hubs can use. It knows nothing of
// Orrery, and no shipped program may import it. Tests of whole systems use etcd processes, by the package
// env.
package etcdtest

import (
	"net/url"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Listen returns the URL at which an empty etcd listens until the test ends. Listen passes its
// configuration to change, if not nil, before etcd starts. The client URL that etcd advertises to its
// members has no port.
func Listen(t testing.TB, change func(*embed.Config)) string {
	t.Helper()
	address := url.URL{Scheme: "http", Host: "127.0.0.1:0"} // etcd listens at a port that the kernel chooses
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync, c.ZapLoggerBuilder = t.TempDir(), true, embed.NewZapLoggerBuilder(zap.NewNop())
	c.EnableGRPCGateway = false // it dials the address of the configuration
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls = []url.URL{address}, []url.URL{address}, nil
	if change != nil {
		change(c)
	}
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	<-etcd.Server.ReadyNotify()
	address.Host = etcd.Clients[0].Addr().String()
	return address.String()
}
