"""Activity tracking: what people look at, search for and click."""
