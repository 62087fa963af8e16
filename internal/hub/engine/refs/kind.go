package refs

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// Kind is a kind of objects that others refer to.
type Kind uint8

// The kinds, each before those that its objects refer to.
const (
	Definitions Kind = iota
	ServiceAccounts
	Claims
	ConfigMaps
	Secrets
	kinds
)

// Resource is the resource of a kind.
func (k Kind) Resource() key.Resource {
	switch k {
	case Definitions:
		return key.CRDs
	case ServiceAccounts:
		return key.NewResource("", "serviceaccounts")
	case Claims:
		return key.NewResource("", "persistentvolumeclaims")
	case ConfigMaps:
		return key.NewResource("", "configmaps")
	}
	return key.Secrets
}

// String is the plural name.
func (k Kind) String() string { return k.Resource().Resource }

// All are all kinds.
func All() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Kinds is a set of kinds.
type Kinds uint8

// KindsOf is the set of the kinds with some plural names; others are left out.
func KindsOf(names []string) (set Kinds) {
	for _, k := range All() {
		if slices.Contains(names, k.String()) {
			set |= 1 << k
		}
	}
	return set
}

// Contains reports whether the set contains the kind of a resource.
func (s Kinds) Contains(r key.Resource) bool {
	i := slices.IndexFunc(All(), func(k Kind) bool { return k.Resource() == r })
	return i >= 0 && s&(1<<i) != 0
}
