"""The journal, module by module."""
