package key

// Rank is the position of a resource in the order of creation; objects that are removed together
// are removed in reverse order. The order is not needed for correctness: it avoids refused requests
// and retries, and lets workloads end in good order.
type Rank uint8

// The ranks, in the order of creation; Ranks is the number of ranks.
const (
	RankNamespaces Rank = iota
	RankDefinitions
	RankConfig
	RankWorkloads
	RankCustom
	RankHooks
	Ranks
)

// builtinGroups contains the rank of each API group of Kubernetes itself.
var builtinGroups = map[string]Rank{
	CoreGroup:                      RankConfig,
	"admissionregistration.k8s.io": RankHooks,
	"apiregistration.k8s.io":       RankHooks,
	"apiextensions.k8s.io":         RankDefinitions,
	"apps":                         RankWorkloads,
	"batch":                        RankWorkloads,
	"authentication.k8s.io":        RankConfig,
	"authorization.k8s.io":         RankConfig,
	"autoscaling":                  RankConfig,
	"certificates.k8s.io":          RankConfig,
	"coordination.k8s.io":          RankConfig,
	"discovery.k8s.io":             RankConfig,
	"events.k8s.io":                RankConfig,
	"flowcontrol.apiserver.k8s.io": RankConfig,
	"internal.apiserver.k8s.io":    RankConfig,
	"networking.k8s.io":            RankConfig,
	"node.k8s.io":                  RankConfig,
	"policy":                       RankConfig,
	"rbac.authorization.k8s.io":    RankConfig,
	"resource.k8s.io":              RankConfig,
	"scheduling.k8s.io":            RankConfig,
	"storage.k8s.io":               RankConfig,
	"storagemigration.k8s.io":      RankConfig,
}

// Builtin reports whether the resource belongs to an API group of Kubernetes itself.
func (r Resource) Builtin() bool {
	_, ok := builtinGroups[r.Group]
	return ok
}

// Rank returns the rank of a resource.
func (r Resource) Rank() Rank {
	switch r {
	case Namespaces:
		return RankNamespaces
	case NewResource("", "pods"), NewResource("", "replicationcontrollers"):
		return RankWorkloads
	}
	if rank, ok := builtinGroups[r.Group]; ok {
		return rank
	}
	return RankCustom
}
