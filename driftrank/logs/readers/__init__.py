"""Readers of logs in other forms. Each turns text into a table of the schema and reports the lines it could not use."""
