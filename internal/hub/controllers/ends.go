package controllers

import (
	"context"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// below visits the rows below some prefixes.
func below(prefixes ...string) func(*table.Snapshot, func(*table.Row) bool) {
	return func(s *table.Snapshot, fn func(*table.Row) bool) {
		for _, prefix := range prefixes {
			s.Ascend(prefix, fn)
		}
	}
}

// prefixTopics returns the topics of all keys below some prefixes.
func prefixTopics(prefixes ...string) (topics []table.Topic) {
	for _, prefix := range prefixes {
		topics = append(topics, table.PrefixTopic(prefix))
	}
	return topics
}

// resourceTopics returns the topics of all objects of some resources.
func resourceTopics(resources ...key.Resource) (topics []table.Topic) {
	for _, r := range resources {
		topics = append(topics, table.ResourceTopic(r))
	}
	return topics
}

// inAllSpaces visits the rows of a resource in all spaces.
func inAllSpaces(r key.Resource) func(*table.Snapshot, func(*table.Row) bool) {
	return func(s *table.Snapshot, fn func(*table.Row) bool) {
		for _, name := range write.All(s) {
			more := true
			s.Ascend(key.ResourcePrefix(name, r), func(row *table.Row) bool {
				more = fn(row)
				return more
			})
			if !more {
				return
			}
		}
	}
}

// byKey enqueues the key of the changed row.
func byKey(ch table.Change) []string { return []string{ch.Row().Key} }

// deletingByKey is byKey for objects that are being deleted.
func deletingByKey(ch table.Change) []string {
	if ch.Cur == nil || !ch.Cur.Meta.Deleting {
		return nil
	}
	return byKey(ch)
}

// namespaces empties namespaces that are being deleted.
func (c *Controllers) namespaces() *controller {
	return c.controller("namespaces", c.finish(c.config.Spaces.FinishNamespace),
		c.follow(source{resourceTopics(key.Namespaces), inAllSpaces(key.Namespaces), deletingByKey}))
}

// crds deletes the objects of CRDs that are being deleted.
func (c *Controllers) crds() *controller {
	return c.controller("customresourcedefinitions", c.finish(c.config.Spaces.FinishCRD),
		c.follow(source{resourceTopics(key.CRDs), inAllSpaces(key.CRDs), deletingByKey}))
}

// pods completes deletions of Pods that stopped between their two steps.
func (c *Controllers) pods() *controller {
	reconcile := func(ctx context.Context, k string) error {
		o, err := key.ParseObject(k)
		if err != nil {
			return err
		}
		return progressed(c.config.Spaces.FinishPod(ctx, o))
	}
	return c.controller("pods", reconcile, c.follow(source{resourceTopics(write.Pods), inAllSpaces(write.Pods), func(ch table.Change) []string {
		if !write.LeftBehind(ch.Cur) {
			return nil
		}
		return byKey(ch)
	}}))
}

// names assigns API names to CRDs after another CRD or an APIBinding of their space has released
// them.
func (c *Controllers) names() *controller {
	assignNames := func(ctx context.Context, s string) error { return c.config.Spaces.SettleNames(ctx, key.Space(s)) }
	letGo := func(ch table.Change) []string {
		s, r, _, ok := key.Split(ch.Row().Key)
		if !ok || ch.Prev == nil && (r == key.APIBindings || write.NamesAccepted(ch.Cur)) {
			return nil
		}
		return []string{string(s)}
	}
	return c.controller("names", assignNames,
		c.follow(source{resourceTopics(key.CRDs, key.APIBindings), inAllSpaces(key.CRDs), letGo}))
}

// finish returns a reconcile function that calls end for the next step of a deletion.
func (c *Controllers) finish(end func(ctx context.Context, s key.Space, name string) (write.Progress, error)) func(context.Context, string) error {
	return func(ctx context.Context, k string) error {
		o, err := key.ParseObject(k)
		if err != nil {
			return err
		}
		return progressed(end(ctx, o.Space, o.Name))
	}
}

// progressed converts the result of a step of a deletion. The next step goes to the end of the
// queue, so that a large deletion does not delay those of other spaces.
func progressed(progress write.Progress, err error) error {
	switch {
	case err != nil:
		return err
	case progress == write.Waiting:
		return errLater
	case progress == write.More:
		return errMore
	}
	return nil
}
