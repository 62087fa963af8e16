package worklist

import "orrery.dev/orrery/internal/protocol/key"

// rank is the place of a resource in the order of creation; removal goes in reverse.
type rank = key.Rank

const (
	rankNamespaces  = key.RankNamespaces
	rankDefinitions = key.RankDefinitions
	rankConfig      = key.RankConfig
	rankWorkloads   = key.RankWorkloads
	rankCustom      = key.RankCustom
	rankHooks       = key.RankHooks
	ranks           = key.Ranks
)

// priority is the place in the queue: applies by rank, then removals in reverse.
type priority uint8

const priorities = 2 * priority(ranks)

func priorityOf(r rank, removal bool) priority {
	if removal {
		return priorities - 1 - priority(r)
	}
	return priority(r)
}
