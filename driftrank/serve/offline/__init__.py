"""The store of a service, read without the service: click log, comparison, replay."""
