// Package network tests the networks between a hub and its clients: load balancers that pass TLS
// through or terminate it, that add a path prefix or close idle connections, proxies with
// authentication, IPv6, sites that accept no connections, and hubs whose URL changes. An agent,
// kubectl and Helm use each network. The balancers and proxies are real programs.
package network
