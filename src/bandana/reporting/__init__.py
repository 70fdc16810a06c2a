"""What a person reads: tables, records, pictures."""
