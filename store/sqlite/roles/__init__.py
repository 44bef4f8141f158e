"""The roles of the protocol on SQLite: each verb hands its work to the writer or a reader. `store.checked`
has checked the arguments."""
