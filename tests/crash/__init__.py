"""What must survive: the crash model, faults, SIGKILL."""
