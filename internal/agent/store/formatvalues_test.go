package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// The values of the stores in testdata/format. Every field of every stored type has a value that no other
// field of the type has, if the type of the field allows it.
var (
	formatTime   = time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC)
	formatObject = []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"n"}}`)
	formatID     = "apps/deployments/n/d"

	formatSource = Source{
		UID: "source-uid", Generation: 11, Digest: wire.SumOf(formatObject), Log: ownership.NewPair("log", 12), Epoch: 13,
		Policy: wire.Policy{
			ReturnStatus: true, CreateOnly: true, Adopt: true, Recreate: true, Orphan: true, ReportDrift: true,
			Release: "$.spec.replicas", ServiceAccount: "n/applier", Associated: "apps/replicasets\ncore/pods",
		},
	}
	// formatKept differs from formatSource in all fields but the digest.
	formatKept = Source{
		UID: "kept-uid", Generation: 21, Digest: wire.SumOf(formatObject), Log: ownership.NewPair("kept", 22), Epoch: 23,
		Policy: wire.Policy{Adopt: true, Release: "$.data", ServiceAccount: "n/other", Associated: "core/events"},
	}
	formatWants = map[string]Want{
		"s/apps/deployments/n/put": {Kind: WantPut, Leaf: formatSource, Version: "v1", ObjectKind: "Deployment", Unannounced: true, Deferred: true},
		"s/apps/deployments/n/held": {
			Kind: WantHold, Leaf: Source{UID: "held-uid", Generation: 25, Digest: wire.SumOf([]byte("held")), Log: ownership.NewPair("held", 26), Epoch: 27},
			Kept: &formatKept, Version: "v2", ObjectKind: "Held", Reason: "reason", Detail: "detail", Unannounced: true, Deferred: true,
		},
		"s/apps/deployments/n/conflict": {Kind: WantConflict, Leaf: Source{UID: "conflict-uid", Digest: wire.SumOf([]byte("conflict"))}, Detail: "o/apps/deployments/n/conflict"},
		"s/apps/deployments/n/gone":     {Kind: WantGone, Leaf: Source{UID: "gone-uid", Digest: wire.SumOf([]byte("gone"))}, Version: "v3", ObjectKind: "Gone"},
		"s/apps/deployments/n/yield":    {Kind: WantYield, Leaf: Source{UID: "yield-uid", Digest: wire.SumOf([]byte("yield"))}, Version: "v4", ObjectKind: "Yield"},
	}
	formatRecords = map[string]Record{
		formatID: {
			Space: "s", Source: formatSource, Moved: "moved", UID: "record-uid", As: ownership.NewOwner("paris", "12345678-90ab"), Generation: 31,
			Fields: 0xfedcba9876543210, Version: "v1", Kind: "Deployment", Mutated: &Mutation{Fields: "spec.replicas", Tries: 32, Due: formatTime},
			Recreation: &Recreation{UID: "recreation-uid", Digest: wire.SumOf([]byte("recreation"))}, LetGo: &LetGo{Cause: wire.Unassigned, Placement: "let-go"},
		},
		"core/configmaps/n/short": {Space: "s", UID: "short-uid", Version: "v1", Kind: "ConfigMap"},
	}
	formatLives = map[string]Live{
		formatID: {UID: "live-uid", Generation: 41, Health: wire.Degraded, Detail: "live detail", Wanted: formatWanted(51), Status: []byte(`{"replicas":42}`)},
	}
	// formatStatus is the stored form of a Live of the first agents.
	formatStatus  = []byte(`{"replicas":43}`)
	formatReports = map[string]wire.Report{
		"s/" + formatID: {
			UID: "report-uid", Generation: 61, Digest: wire.SumOf([]byte("report")), State: wire.Failed, Reason: "reason", Message: "message", Since: "2026-11-30T01:02:03Z",
			Cause: wire.Walked, LetGoBy: "let-go-by", Health: wire.Progressing, HealthNote: "health note", Wanted: formatWanted(71), Owner: "core/pods/n/owner",
			Omitted: 62, Status: json.RawMessage(`{"a":1}`), StatusBytes: 63, Completed: "completed", Aggregated: true, Orphan: true,
			Object: json.RawMessage(`{"b":2}`), ObjectBytes: 64,
		},
		key.LinePrefix(key.Upsynced) + "s/core/configmaps/n/born": {UID: "born-uid", State: wire.Applied},
		key.LinePrefix(key.Owned) + "s/core/pods/n/owned":         {UID: "owned-uid", State: wire.Applied},
		key.LinePrefix(key.Placed) + "s/core/configmaps/n/sent":   {UID: "sent-uid", State: wire.Applied},
	}
	formatRemovals = map[string]pendingRemoval{
		formatID: {
			Cause: wire.Unassigned, Space: "s", Moved: "moved", Placement: "placement", UID: "removal-uid", Recreates: true, Desired: "s/apps/deployments/n/put", Once: 1 << 63,
		},
	}
	// formatMeta has all fields of Meta but those that follow from the other values.
	formatMeta = Meta{
		Location: "paris", LocationUID: "location-uid", Placing: key.Prefixed, Shard: key.Shard{Index: 2, Count: 3}, Gained: true, ID: "id",
		Marker: "marker", Revision: 81, Seen: ownership.NewPair("seen", 82), Accepted: ownership.NewPair("accepted", 83), Epoch: 84,
		Settings: formatSettings("settings", 100), Fresh: true, Successor: ownership.NewOwner("rome", "abcdef12-3456"), Superseded: "superseded",
		Reached: 85, Newer: "newer", Life: "life", Replaces: &State{ID: "replaces", Moves: 86},
		Cluster:  Cluster{UID: "cluster-uid", Others: map[string]string{"default": "default-uid"}, Replaced: formatTime},
		Inherits: true, Prune: pruneWindow{{Unix: formatTime.Unix(), Count: 87}}, ReportsAgreed: true, ReportsMarker: "reports marker",
		Aggregated: []string{"pods.metrics.k8s.io"}, Waiting: formatWaiting(), SearchPending: true, Guarded: formatGuarded(),
	}
)

func formatWanted(n int64) *wire.Wanted {
	number := func(i int64) *int64 { i += n; return &i }
	return &wire.Wanted{Replicas: number(1), Partition: number(2), Completions: number(3), Parallelism: number(4)}
}

func formatSettings(name string, n int) wire.Settings {
	return wire.Settings{
		Halt: name + " halt", PruneMaxPercent: n + 1, HeartbeatSeconds: n + 2, Accept: name + " accept",
		Confirm: []wire.Confirmation{{Space: name, Digest: "0123456789abcdef"}}, Purge: true, TakesOver: []string{name + ".12345678"}, Namespaces: string(key.Prefixed),
		Upsync:        []wire.Upsync{{Space: name, Group: "apps", Resources: []string{"deployments"}, Namespaces: []string{}, Names: []string{"d"}}},
		UpsyncObjects: n + 3, UpsyncBytes: int64(n) + 4, Dropped: int64(n) + 5,
	}
}

func formatWaiting() *wire.Settings {
	s := formatSettings("waiting", 200)
	return &s
}

func formatGuarded() GuardSums {
	all := GuardSums{}
	for id, p := range formatRemovals {
		now := all[p.group()]
		all[p.group()] = GuardSum{now.Count + 1, now.Sum.Add(p.sum(id))}
	}
	return all
}

// writeFormat fills a new store with the values.
func writeFormat(x *Tx, outdated bool) error {
	m := formatMeta
	m.Written, m.Outdated = x.meta.Written, outdated
	*x.meta = m
	var errs []error
	for path, w := range inOrder(formatWants) {
		object := formatObject
		if w.Object() == nil {
			object = nil
		}
		errs = append(errs, x.Desired.set(path, nil, w, object))
	}
	for id, r := range inOrder(formatRecords) {
		errs = append(errs, x.Records.set(id, &r))
	}
	for id, l := range inOrder(formatLives) {
		errs = append(errs, x.Observed.Set(id, &l))
	}
	errs = append(errs, x.put(statusBucket, "core/configmaps/n/old", formatStatus), x.put(statusBucket, "core/configmaps/n/empty", nil))
	for line, r := range inOrder(formatReports) {
		if r.UID == "sent-uid" {
			errs = append(errs, x.RestoreReport(line, &r))
			continue
		}
		errs = append(errs, x.Reports.Set(line, &r))
	}
	errs = append(errs, x.Reports.MarkUnsent("s/core/configmaps/n/removed"))
	for id, p := range inOrder(formatRemovals) {
		errs = append(errs, x.putJSON(guardBucket, id, p))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write the values: %w", err)
	}
	return nil
}
