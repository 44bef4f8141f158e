"""What the suites share: fakes, fixtures and the rule for missing tools."""
