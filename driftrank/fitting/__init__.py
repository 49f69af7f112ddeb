"""Click models fitted to a log, and a report on them."""
