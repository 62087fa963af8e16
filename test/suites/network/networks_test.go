package network

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/ports"
	"orrery.dev/orrery/test/support/world"
)

// way is a network between the hub and its clients.
type way struct {
	// name is also the name of the endpoint.
	name string
	// host is the host name or address of the load balancer; path is its prefix to the paths of the hub.
	host, path string
	// balancer is a section of the configuration of HAProxy, in which BIND, CERT, HUB and CA stand for
	// its address, its certificate, the address of the hub, and the certificate authority of the hub.
	balancer string
	// foreign reports whether clients receive the certificate of the load balancer.
	foreign bool
	// silence is the time in seconds after which the load balancer closes an idle connection; 0 means
	// later than any test needs.
	silence int
}

const terminating = `
listen NAME
  mode http
  bind BIND ssl crt CERT alpn %s
  %s
  server hub HUB ssl verify required ca-file CA alpn %s
`

var ways = []way{
	{name: "passing-by-sni", host: "localhost", balancer: `
frontend NAME
  mode tcp
  bind BIND
  tcp-request inspect-delay 5s
  tcp-request content accept if { req.ssl_sni -i localhost }
  tcp-request content reject
  default_backend NAME-hub
backend NAME-hub
  mode tcp
  server hub HUB
`},
	{name: "terminating", host: "localhost", foreign: true, balancer: fmt.Sprintf(terminating, "h2,http/1.1", "", "h2,http/1.1")},
	{name: "terminating-http1", host: "localhost", foreign: true, balancer: fmt.Sprintf(terminating, "http/1.1", "", "http/1.1")},
	{name: "path-stripped", host: "localhost", path: "/orrery", foreign: true, balancer: fmt.Sprintf(terminating, "h2,http/1.1",
		"http-request deny deny_status 404 unless { path_beg /orrery/ }\n  http-request replace-path /orrery(/.*) \\1", "h2,http/1.1")},
	{name: "path-kept", host: "localhost", path: "/kept/here", foreign: true, balancer: fmt.Sprintf(terminating, "h2,http/1.1",
		"http-request deny deny_status 404 unless { path_beg /kept/here/ }", "h2,http/1.1")},
	{name: "impatient", host: "localhost", silence: 8, balancer: `
listen NAME
  mode tcp
  bind BIND
  timeout client 8s
  timeout server 8s
  timeout tunnel 8s
  server hub HUB
`},
	{name: "impatient-terminating", host: "localhost", foreign: true, silence: 8, balancer: fmt.Sprintf(terminating, "h2,http/1.1",
		"timeout client 8s\n  timeout server 8s\n  timeout http-keep-alive 8s", "http/1.1")},
	{name: "ipv6", host: "::1", balancer: `
listen NAME
  mode tcp
  bind BIND
  server hub HUB
`},
}

// balanced is a hub behind several load balancers.
type balanced struct {
	*site
	urls map[string]string
}

// behind starts a hub with additional flags that advertises all ways, and the load balancer.
func behind(t *testing.T, ways []way, args ...string) *balanced {
	t.Helper()
	cert := newCertificate(t, "localhost")
	b := &balanced{urls: map[string]string{}}
	sections, first := "", ""
	binds := map[string]string{}
	for _, w := range ways {
		_, port, _ := strings.Cut(ports.Reserve(t), ":")
		host, bind := w.host, "127.0.0.1:"+port
		if strings.Contains(host, ":") {
			host, bind = "["+host+"]", "["+host+"]:"+port
		}
		b.urls[w.name], binds[w.name] = "https://"+host+":"+port+w.path, bind
		if first == "" {
			first = bind
		}
		args = append(args, "--advertise", w.name+"="+b.urls[w.name])
		if w.foreign {
			args = append(args, "--advertise-ca", w.name+"="+cert.ca)
		}
	}
	hub := env.StartHub(t, args...)
	for _, w := range ways {
		sections += strings.NewReplacer(
			"NAME", w.name, "BIND", binds[w.name], "CERT", cert.file, "HUB", strings.TrimPrefix(hub.URL, "https://"), "CA", hub.Dir+"/ca.crt",
		).Replace(w.balancer)
	}
	env.StartBalancer(t, first, sections)
	b.site = siteOf(t, world.ForHub(t, hub))
	return b
}

// TestNetworks joins an agent through each network, and uses kubectl and Helm through it.
func TestNetworks(t *testing.T) {
	t.Parallel()
	b := behind(t, ways)
	charts := chart(t)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			s := *b.site
			s.t = t
			s.prefer(w.name)
			a := s.join(nil)
			s.reaches(a, b.urls[w.name])
			kubeconfig := s.kubeconfig(w.name)
			s.travels("by-"+w.name, kubeconfig)
			s.clients(kubeconfig, charts)
			if w.silence > 0 {
				s.staysQuiet(a, w.silence)
			}
			a.Stop()
		})
	}
}
