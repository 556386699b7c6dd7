"""Change log: changes of rows by key become the table as it is now, and its history."""
