package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// NameCluster notes the identity of the cluster, which was not known before.
func NameCluster(t *Tx, c Cluster) { t.meta.Cluster = c }

// Search notes that the target has to be searched for objects that the store does not know.
func Search(t *Tx) { t.meta.Survey = true }

// SetAggregated records whether the target serves a resource without a CustomResourceDefinition.
func SetAggregated(t *Tx, r key.Resource, aggregated bool) {
	all := slices.DeleteFunc(slices.Clone(t.meta.Aggregated), func(other string) bool { return other == r.String() })
	if aggregated {
		all = append(all, r.String())
		slices.Sort(all)
	}
	t.meta.Aggregated = all
}

// IsAggregated reports whether the target has served a resource without a CustomResourceDefinition.
func (m *Meta) IsAggregated(r key.Resource) bool { return slices.Contains(m.Aggregated, r.String()) }

// ReplaceCluster notes that a cluster has taken the place of another one: Jobs and Pods that ran to their end
// ran there, so they run again. It returns how many these are.
func ReplaceCluster(t *Tx, c Cluster) (ended int, err error) {
	again := map[string]*wire.Report{}
	cursor := t.bucket(reportBucket).Cursor()
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		text := t.open(reportBucket, string(k), v)
		if !IsPlaced(string(k)) || gjson.GetBytes(text, "completed").Str == "" {
			continue
		}
		r := &wire.Report{}
		if err := json.Unmarshal(text, r); err != nil {
			return 0, fmt.Errorf("decode the report of %q: %w", k, err)
		}
		r.Completed = ""
		again[string(k)] = r
	}
	for k, r := range again {
		err = errors.Join(err, t.SetReport(k, r))
	}
	t.meta.Cluster = c
	t.meta.movedOn() // an older copy of the store is of the former cluster
	return len(again), err
}
