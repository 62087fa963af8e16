package mapper

import "orrery.dev/orrery/internal/key"

// rank is the place of a resource in the order of creation; removal goes the
// other way. The order saves refusals and retries; nothing depends on it.
type rank uint8

const (
	rankNamespaces rank = iota
	rankDefinitions
	rankConfig
	rankWorkloads
	rankCustom
	rankHooks
	ranks
)

// builtinGroups are the groups of Kubernetes itself whose rank is not their own.
var builtinGroups = map[string]rank{
	key.CoreGroup:                  rankConfig,
	"admissionregistration.k8s.io": rankHooks,
	"apiregistration.k8s.io":       rankHooks,
	"apiextensions.k8s.io":         rankDefinitions,
	"apps":                         rankWorkloads,
	"batch":                        rankWorkloads,
	"authentication.k8s.io":        rankConfig,
	"authorization.k8s.io":         rankConfig,
	"autoscaling":                  rankConfig,
	"certificates.k8s.io":          rankConfig,
	"coordination.k8s.io":          rankConfig,
	"discovery.k8s.io":             rankConfig,
	"events.k8s.io":                rankConfig,
	"flowcontrol.apiserver.k8s.io": rankConfig,
	"internal.apiserver.k8s.io":    rankConfig,
	"networking.k8s.io":            rankConfig,
	"node.k8s.io":                  rankConfig,
	"policy":                       rankConfig,
	"rbac.authorization.k8s.io":    rankConfig,
	"resource.k8s.io":              rankConfig,
	"scheduling.k8s.io":            rankConfig,
	"storage.k8s.io":               rankConfig,
	"storagemigration.k8s.io":      rankConfig,
}

// rankOf is the rank of a resource.
func rankOf(r key.Resource) rank {
	switch r {
	case key.Namespaces:
		return rankNamespaces
	case key.NewResource("", "pods"), key.NewResource("", "replicationcontrollers"):
		return rankWorkloads
	}
	if rank, ok := builtinGroups[r.Group]; ok {
		return rank
	}
	return rankCustom
}

// priority is the place in the queue: what is to be made by rank, then what is
// to be removed, against it.
type priority uint8

const priorities = 2 * priority(ranks)

func priorityOf(r rank, removal bool) priority {
	if removal {
		return priorities - 1 - priority(r)
	}
	return priority(r)
}
