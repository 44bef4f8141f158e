"""The test suites: unit, property, crash, contract; `support` holds what they share."""
