"""The store's protocol in its roles. `store.base.Store` is all of them; see there for what holds for all
verbs."""
