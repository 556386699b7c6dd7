"""Every broker's cluster image, its own registration, and its connections to the other brokers."""
