"""What a person sees in the terminal: progress bars, tables, and where things were written."""
