"""The HTTP side of the service: gate, routes, problem documents, OpenAPI."""
