package read

import (
	"slices"
	"strings"
	"unique"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/protocol/key"
)

// clustered is a set of kinds as one string, so that values of display can be compared.
type clustered = unique.Handle[string]

func clusteredOf(all []schema.GroupKind) clustered {
	names := make([]string, 0, len(all))
	for _, k := range all {
		names = append(names, k.String())
	}
	slices.Sort(names)
	return unique.Make("\n" + strings.Join(slices.Compact(names), "\n") + "\n")
}

// isClustered reports whether an owner reference is to one of the kinds.
func isClustered(all clustered, owner gjson.Result) bool {
	if all == (clustered{}) {
		return false
	}
	group, _ := key.SplitVersion(owner.Get("apiVersion").String())
	k := schema.GroupKind{Group: group, Kind: owner.Get("kind").String()}
	return strings.Contains(all.Value(), "\n"+k.String()+"\n")
}
