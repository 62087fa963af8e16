package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// step measures some lines of the table.
type step struct {
	name string
	run  func(*bench) error
}

// apart are the steps that are only taken by their name, or in a quick run: what they measure is
// beyond what one hub is for.
var apart = []string{"crowd"}

// steps are in an order that suits all: what needs time to come to rest gets it
// while others are measured.
func steps() []step {
	return []step{
		{"state", onState((*state).addSpaces)},
		{"sync", (*bench).fullSync},
		{"edit", (*bench).editToTarget},
		{"status", (*bench).statusToSpace},
		{"status", statusOfTwo},
		{"drift", (*bench).driftRepaired},
		{"quiet", (*bench).nothingChanging},
		{"state", onState((*state).addObjects)},
		{"many", (*bench).loadFew},
		{"writes", (*bench).hubWrites},
		{"fanout", (*bench).fanOut},
		{"watch", (*bench).eventToWatcher},
		{"state", onState((*state).addLocations)},
		{"throttle", (*bench).throttledTarget},
		{"api", (*bench).spaceAPI},
		{"list", (*bench).listMany},
		{"many", (*bench).measureFew},
		{"many", (*bench).syncMany},
		{"state", onState((*state).addReports)},
		{"hubs", (*bench).severalHubs},
		{"memory", (*bench).readMemory},
		{"state", onState((*state).openWatches)},
		{"fleet", (*bench).fillFleet},
		{"many", (*bench).measureMany},
		{"state", onState((*state).eventToAll)},
		{"walks", (*bench).walksAtOnce},
		{"fleet", (*bench).wholeFleet},
		{"render", (*bench).ownRenderings},
		{"fleet", (*bench).restartedFleet},
		{"bursts", (*bench).bursts},
		{"fleet", (*bench).endFleet},
		{"bursts", (*bench).endFleet},
		{"upsync", (*bench).requestUpsync},
		{"reports", (*bench).reportsAtOnce},
		{"exports", (*bench).sliceExports},
		{"upsync", (*bench).followUpsync},
		{"crowd", (*bench).manyLocations},
	}
}

func onState(run func(*state) error) func(*bench) error {
	return func(b *bench) error { return run(b.state) }
}

func stepNames() []string {
	var all []string
	for _, s := range steps() {
		if !slices.Contains(all, s.name) {
			all = append(all, s.name)
		}
	}
	return all
}

// chooseSteps are those of a comma-separated list, or else all, of those apart if they are wanted.
func chooseSteps(only string, withApart bool) ([]step, error) {
	if only == "" {
		return slices.DeleteFunc(steps(), func(s step) bool { return !withApart && slices.Contains(apart, s.name) }), nil
	}
	names := strings.Split(only, ",")
	for _, name := range names {
		if !slices.Contains(stepNames(), name) {
			return nil, fmt.Errorf("-only %q: want some of %s", name, strings.Join(stepNames(), ", "))
		}
	}
	return slices.DeleteFunc(steps(), func(s step) bool { return !slices.Contains(names, s.name) }), nil
}

// measure takes the steps. One that can't be taken does not keep others from it.
func measure(t env.T, s size, wanted []step, r *report) {
	b := &bench{t: t, ctx: t.Context(), size: s, report: r}
	if err := b.start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	for _, step := range wanted {
		start := time.Now()
		t.Logf("%s ...", step.name)
		if err := step.run(b); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if b.ctx.Err() != nil {
			return
		}
		took := time.Since(start)
		r.took(step.name, took)
		t.Logf("%s: %s", step.name, took.Round(100*time.Millisecond))
	}
}
