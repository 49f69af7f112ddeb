"""The check before a release: ``make release-check``."""
