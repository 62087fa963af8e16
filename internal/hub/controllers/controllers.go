// Package controllers contains the controllers of the hub. They write the status of Spaces,
// Locations, policies, Summaries, APIExports and their views; they complete deletions; and they
// write the statuses that return from locations.
//
// Each controller has watches and a reconcile function for one key. It is level-triggered: it reads
// the table and does not depend on events. Of several hubs that share a log, one is elected to run
// each controller. The package must never serve a request.
package controllers

import (
	"context"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/protocol/key"
)

// Controllers contains all controllers. The caller runs their Loops, and Count.
type Controllers struct {
	counter *counter
	loops   []Loop
}

// Loop is a controller that runs until its context ends. The caller must restart it after an error,
// and must not run two of the same name concurrently, at any hub.
type Loop struct {
	Name string
	Run  func(context.Context) error
}

// New returns Controllers.
func New(config Config) *Controllers {
	counter := newCounter(counterConfig{
		Table: config.Table, Progress: config.Progress, Computed: config.Computed, Unreturned: config.Unreturned, Pruned: config.Pruned, Releases: config.Releases,
		Changed: config.Changed, Settling: config.Settling, Now: config.Now,
	})
	c := &Controllers{counter: counter}
	for _, one := range list(config, counter) {
		runner := &runner{registration: one, meter: config.Meter, logger: config.Logger}
		c.loops = append(c.loops, Loop{one.name, runner.run})
	}
	return c
}

// Loops returns the controllers.
func (c *Controllers) Loops() []Loop { return c.loops }

// Count updates the progress of Placements and locations until the context ends. Each hub runs it,
// whether or not it is elected to write the counts.
func (c *Controllers) Count(ctx context.Context) error { return c.counter.run(ctx) }

// list returns all controllers. A name is the key of an election, and a label of metrics: hubs of
// different versions must agree on it.
func list(c Config, counter *counter) []registration {
	all, now := c.Table, c.Now
	status := &statusWriter{table: all, log: c.Log, kinds: c.Kinds, logger: c.Logger, now: now}
	return []registration{
		{name: "spaces", controller: &spaceController{spaceConfig{
			Table: all, Status: status, Finish: c.Spaces.FinishSpace, EnsureNamespace: c.Spaces.EnsureNamespace, URL: c.SpaceURL,
		}}},
		{name: "namespaces", controller: &deletionController{deletionConfig{
			Table: all, Resource: key.Namespaces, IsPending: isDeleting, Finish: byName(c.Spaces.FinishNamespace),
		}}},
		{name: "customresourcedefinitions", controller: &deletionController{deletionConfig{
			Table: all, Resource: key.CRDs, IsPending: isDeleting, Finish: byName(c.Spaces.FinishCRD),
		}}},
		{name: "apibindings", controller: newBindingController(bindingConfig{
			Table: all, Finish: c.Spaces.FinishBinding, Update: c.Spaces.SettleBinding, Consumers: c.BindingTo, Now: now,
		})},
		{name: "pods", controller: &deletionController{deletionConfig{
			Table: all, Resource: write.Pods, IsPending: write.LeftBehind, Finish: c.Spaces.FinishPod,
		}}},
		{name: "names", controller: &nameController{nameConfig{Table: all, Assign: c.Spaces.SettleNames}}},
		{name: "policies", controller: &policyController{config: policyConfig{
			Table: all, Counted: counter.counted,
			Placements: placementStatus{
				Table: all, Status: status, Resolved: counter.resolved, Progress: c.Progress, Pruned: c.Pruned, Releases: c.Releases, Unreturned: c.Unreturned,
			},
			Customizers: customizerStatus{Table: all, Status: status, Progress: c.Progress, Rules: c.Rules},
			KindRules:   kindRulesStatus{Table: all, Status: status, Progress: c.Progress, Health: c.Health},
		}}},
		{name: "summaries", controller: newSummaryController(summaryConfig{
			Table: all, Status: status, Summaries: c.Summaries, Changed: c.Summed, Settling: c.Settling, Now: now,
		})},
		{name: "apiexports", controller: newExportController(exportConfig{
			Table: all, Status: status, Consumers: c.Consumers, Unclaimable: c.Spaces.Unclaimable, URL: c.ExportViewURL, Now: now,
		})},
		{name: "apiexportviews", controller: newExportViewController(exportViewConfig{
			Table: all, Status: status, Changed: c.ChangedViews, URL: c.ExportViewURL, Now: now,
		})},
		{name: "locations", controller: newLocationController(locationConfig{
			Table: all, Log: c.Log, Status: status, Connected: c.Sessions.Connected, Gone: c.Gone, Answers: c.Answers, CheckLog: c.CheckLog, Disconnected: c.Disconnected, Now: now,
		})},
		{name: "returned status", workers: returners, controller: newReturnController(returnConfig{
			Table: all, Log: c.Log, Status: status, Limits: c.Limits, Unreturned: c.Unreturned, Digest: c.Digest, RoomRetry: c.RoomRetry, Now: now,
		})},
		{name: "removals", controller: &removalController{removalConfig{Table: all, Progress: c.Progress, Finish: c.Spaces.FinishRemoval}}},
		{name: "tokens", controller: &tokenController{tokenConfig{Table: all, Log: c.Log, Now: now}}},
		{name: "born", controller: &upsyncController{upsyncConfig{Table: all, Log: c.Log, Upsynced: c.Upsynced}}},
	}
}
