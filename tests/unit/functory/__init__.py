"""The application, module by module."""
