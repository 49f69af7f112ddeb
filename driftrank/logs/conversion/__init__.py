"""Convert logs in other formats to the schema."""
