"""What is in `deploy/`, and what the daemon does for those who run it: proved with the real tools."""
