package fields

import (
	"fmt"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"orrery.dev/orrery/internal/protocol/key"
)

var clusterRoles = key.Resource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}

// WithoutAggregated returns an object without the rules of an aggregated ClusterRole. A controller of
// the cluster sets them, whatever is written. All other objects stay unchanged.
func WithoutAggregated(r key.Resource, object []byte) ([]byte, error) {
	if r != clusterRoles || !gjson.GetBytes(object, "aggregationRule").IsObject() {
		return object, nil
	}
	object, err := sjson.DeleteBytes(object, "rules")
	if err != nil {
		return nil, fmt.Errorf("%w: leave out the rules of an aggregated ClusterRole: %w", ErrMalformed, err)
	}
	return object, nil
}
