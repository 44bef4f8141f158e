"""What can be asked of Functory, one file per area: typed values in and out, over store, journal and the seams.

No HTTP in here and no rendering: the web layer, the command line and tests call the same functions. Every function
that acts for a tenant takes the `Principal` (or the tenant's name) that authentication found; no tenant's name is ever
taken from a request's content.
"""
