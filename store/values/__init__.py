"""The values that cross the store's boundary: plain data, no behaviour that needs a database."""
