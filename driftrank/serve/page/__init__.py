"""The live page of the service: what it learns, for people. HTML made here, kept current by server-sent events."""
