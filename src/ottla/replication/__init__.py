"""The role a broker plays for one partition: what is appended, what is committed, who waits for it."""
