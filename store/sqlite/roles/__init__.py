"""The roles of the protocol on SQLite: each verb checks its arguments and hands the work to the writer or a
reader."""
