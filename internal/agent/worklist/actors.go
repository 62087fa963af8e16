package worklist

// actor is the account that acts for items of a kind.
type actor struct {
	// account is a ServiceAccount as NAMESPACE/NAME; empty: the agent itself.
	account string
	items   int
}

// actsAs records the account that acts for an item.
func (it *Item) actsAs(account string) {
	if it.actor != nil && it.actor.account == account {
		return
	}
	it.unacted()
	k := it.kind
	if it.actor = k.actors[account]; it.actor == nil {
		if k.actors == nil {
			k.actors = map[string]*actor{}
		}
		it.actor = &actor{account: account}
		k.actors[account] = it.actor
	}
	it.actor.items++
}

// unacted records that no account acts for an item any more.
func (it *Item) unacted() {
	if it.actor == nil {
		return
	}
	if it.actor.items--; it.actor.items == 0 {
		delete(it.kind.actors, it.actor.account)
	}
	it.actor = nil
}
