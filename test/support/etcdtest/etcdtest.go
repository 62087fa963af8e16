// Package etcdtest runs an etcd in the process of a test, at which several hubs can be. It knows
// nothing of Orrery, and must not be imported by anything that ships. Whole systems use
// processes of their own, by the package env.
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
	at := url.URL{Scheme: "http", Host: "127.0.0.1:0"} // etcd listens at a port that the kernel chooses
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync, c.ZapLoggerBuilder = t.TempDir(), true, embed.NewZapLoggerBuilder(zap.NewNop())
	c.EnableGRPCGateway = false // it dials the address of the configuration
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls = []url.URL{at}, []url.URL{at}, nil
	if change != nil {
		change(c)
	}
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	<-etcd.Server.ReadyNotify()
	at.Host = etcd.Clients[0].Addr().String()
	return at.String()
}
