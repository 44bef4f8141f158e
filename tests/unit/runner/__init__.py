"""The runner, module by module."""
