"""From a case to ranked, explained plans."""
