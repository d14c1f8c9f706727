"""Time of one optimizer step."""
