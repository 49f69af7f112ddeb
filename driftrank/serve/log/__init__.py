"""The log of the service: records, group commit, stores."""
