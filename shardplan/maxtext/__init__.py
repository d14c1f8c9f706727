"""What MaxText itself defines: its keys and its rematerialisation policies."""
