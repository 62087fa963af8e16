// Package etcdtest runs an etcd in the process of a test, at which several hubs can be. It knows
// nothing of Orrery, and must not be imported by anything that ships. Whole systems use
// processes of their own, by the package env.
package etcdtest

import (
	"net"
	"net/url"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Listen returns the URL at which an empty etcd listens until the test ends. change, if not
// nil, is given its configuration before it starts.
func Listen(t testing.TB, change func(*embed.Config)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := url.URL{Scheme: "http", Host: listener.Addr().String()}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync, c.ZapLoggerBuilder = t.TempDir(), true, embed.NewZapLoggerBuilder(zap.NewNop())
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
	return at.String()
}
