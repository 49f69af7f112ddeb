"""The settings of servers and rankers: fields, checks, loading."""
