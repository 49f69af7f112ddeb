"""The contract of policies: checks that run on any policy."""
