"""The handlers package, module by module."""
