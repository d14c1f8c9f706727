"""`check --fix`: single edits, the search for the smallest set that mends a launch, and the patch that is printed."""
