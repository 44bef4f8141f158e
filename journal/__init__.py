"""The durable line journal. Imports nothing of ours."""
