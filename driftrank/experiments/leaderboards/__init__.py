"""Every policy in every environment of a suite, with significance."""
