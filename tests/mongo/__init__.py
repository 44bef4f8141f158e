"""What only the MongoDB back end promises: round trips, indexes, and its repair of interrupted calls."""
