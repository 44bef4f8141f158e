"""Attacks, each as a tenant would try it."""
