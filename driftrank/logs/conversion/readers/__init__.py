"""Readers of logs in other formats. Each converts text to tables of the schema and reports lines it cannot use."""
