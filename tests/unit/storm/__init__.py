"""The storm's own parts: its plan and its checker."""
