// Package network is the networks that lie between a hub and those who use it: balancers
// that pass on or end TLS, that put a path before the hub's own or cut what is silent,
// proxies that want to be asked, IPv6, sites that nobody can connect to, and hubs that
// move. Each is tried by an agent, kubectl and Helm, on the programs that such networks
// are made of.
package network
