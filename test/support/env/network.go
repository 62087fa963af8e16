package env

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/test/support/ports"
)

// Network is the network of a site: a network namespace for an agent, which reaches this machine only
// through a router that can drop packets. The faults do not affect a second interface, for the cluster.
type Network struct {
	// Hub is the address of this machine through the router.
	Hub string
	// ClusterSide is the address of this machine on the second interface.
	ClusterSide string

	t            T
	site, router string // namespaces
	// gateway is the address of the router on the side of the site.
	gateway string
	// address is the address of the site, and other the one to which Roam changes.
	address, other string
}

// blockSize is the number of addresses for one test, from the block that is reserved for benchmarks of
// networks.
const blockSize = 32

// StartNetwork makes a network with the tool ip of iproute2, which needs root. It
// ends with the test.
func StartNetwork(t T) *Network {
	t.Helper()
	blocks := netip.MustParsePrefix("198.18.0.0/15")
	block := ports.Number(t, "network", 0, 1<<(32-blocks.Bits())/blockSize, nil)
	name, base := strconv.Itoa(block), blocks.Addr().As4()
	host := func(i int) string {
		number := binary.BigEndian.Uint32(base[:]) + uint32(block*blockSize+i)
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, number))).String()
	}
	n := &Network{
		t: t, site: "orrery-site-" + name, router: "orrery-router-" + name,
		Hub: host(1), gateway: host(9), address: host(10), other: host(11), ClusterSide: host(17),
	}
	n.remove() // of a test that was killed
	t.Cleanup(n.remove)
	out, cluster := "or"+name, "oc"+name
	for _, args := range []string{
		"netns add " + n.router,
		"netns add " + n.site,
		"link add " + out + " type veth peer name outside netns " + n.router,
		"link add " + cluster + " type veth peer name cluster netns " + n.site,
		"-n " + n.router + " link add inside type veth peer name uplink netns " + n.site,
		"addr add " + host(1) + "/30 dev " + out,
		"addr add " + host(17) + "/30 dev " + cluster,
		"-n " + n.router + " addr add " + host(2) + "/30 dev outside",
		"-n " + n.router + " addr add " + host(9) + "/29 dev inside",
		"-n " + n.site + " addr add " + host(10) + "/29 dev uplink",
		"-n " + n.site + " addr add " + host(18) + "/30 dev cluster",
		"-n " + n.site + " link set lo up",
		"-n " + n.site + " link set uplink up",
		"-n " + n.site + " link set cluster up",
		"-n " + n.router + " link set outside up",
		"-n " + n.router + " link set inside up",
		"link set " + out + " up",
		"link set " + cluster + " up",
		"route add " + host(8) + "/29 via " + host(2),
		"-n " + n.site + " route add default via " + host(9),
	} {
		n.ip(strings.Fields(args)...)
	}
	n.ip("netns", "exec", n.router, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
	return n
}

// ip runs a command of the tool, which must succeed.
func (n *Network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("network namespaces are needed, which take root and iproute2: ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// remove deletes the namespaces, and with them their ends of all links.
func (n *Network) remove() {
	for _, name := range []string{n.site, n.router} {
		_ = exec.Command("ip", "netns", "del", name).Run() // it may not exist
	}
}

// LoseUp makes the router silently drop packets from the site to this machine.
func (n *Network) LoseUp() { n.ip("-n", n.router, "route", "add", "blackhole", n.Hub+"/32") }

// LoseDown makes the router silently drop packets from this machine to the site.
func (n *Network) LoseDown() {
	for _, address := range []string{n.address, n.other} {
		n.ip("-n", n.router, "route", "add", "blackhole", address+"/32")
	}
}

// Lose makes the router silently drop all packets.
func (n *Network) Lose() {
	n.LoseUp()
	n.LoseDown()
}

// Heal ends all losses.
func (n *Network) Heal() { n.ip("-n", n.router, "route", "flush", "type", "blackhole") }

// Unplug takes the site's interface down, so that programs there get errors.
func (n *Network) Unplug() { n.ip("-n", n.site, "link", "set", "uplink", "down") }

// Plug ends Unplug.
func (n *Network) Plug() {
	n.ip("-n", n.site, "link", "set", "uplink", "up")
	n.ip("-n", n.site, "route", "replace", "default", "via", n.gateway)
}

// Roam changes the address of the site, which can no longer be reached at the previous one.
func (n *Network) Roam() {
	n.ip("-n", n.site, "addr", "flush", "dev", "uplink")
	n.address, n.other = n.other, n.address
	n.ip("-n", n.site, "addr", "add", n.address+"/29", "dev", "uplink")
	n.ip("-n", n.site, "route", "replace", "default", "via", n.gateway)
}

// Within makes the process run in the network from its next start, or, if n is nil, in that of this
// machine.
func (p *Process) Within(n *Network) {
	p.within, p.isAltered = nil, true
	if n != nil {
		p.within = []string{"ip", "netns", "exec", n.site}
	}
}

// Kubeconfig returns the agent's kubeconfig of a cluster with an address that the network can reach.
func (n *Network) Kubeconfig(c *Cluster) string {
	n.t.Helper()
	config, err := clientcmd.LoadFromFile(c.AgentKubeconfig)
	if err != nil {
		n.t.Fatalf("read the kubeconfig of cluster %q: %v", c.Name, err)
	}
	link := startLink(n.t, n.ClusterSide+":0", c.address)
	for _, cluster := range config.Clusters {
		cluster.TLSServerName, _ = splitAddress(c.address)
		cluster.Server = "https://" + link.Address
	}
	file := filepath.Join(n.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		n.t.Fatalf("write a kubeconfig of cluster %q: %v", c.Name, err)
	}
	return file
}

// OutwardOnly makes the router drop packets from this machine to the site, except for those from the
// port of a URL, which are the responses of a server. So this machine cannot open a connection to the
// site.
func (n *Network) OutwardOnly(served string) {
	_, port := splitAddress(hostPort(served))
	n.ip("-n", n.router, "rule", "add", "pref", "10", "iif", "outside", "ipproto", "tcp", "sport", port, "lookup", "main")
	n.ip("-n", n.router, "rule", "add", "pref", "20", "iif", "outside", "blackhole")
}

// Reach reports whether this machine can open a connection to the site. A refused connection counts, so
// no server is needed there.
func (n *Network) Reach() bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(n.address, "9"), 2*time.Second)
	if err == nil {
		_ = conn.Close() // only the connection was needed
	}
	return err == nil || errors.Is(err, syscall.ECONNREFUSED)
}
