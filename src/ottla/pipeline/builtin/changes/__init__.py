"""Change log: changes of rows by key become the current table and its history."""
