"""The one shell that runs pure coordinator cores: load by replay, append, wait until it is committed, answer."""
