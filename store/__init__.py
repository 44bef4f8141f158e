"""The store: repository of jobs, handlers, results, sysids and tenants. Imports nothing of ours."""
