"""What tenants register: the handler model, its validation, and the languages. Imports nothing of ours."""
