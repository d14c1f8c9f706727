"""Ways to split the work: candidates as columns, and their enumeration."""
