"""Tables, pages, figures and files that experiments share."""
