"""Pure choice: which tenant, which jobtype, how many, and when again. No I/O; time is passed in."""
