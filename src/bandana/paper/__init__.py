"""The paper as data: recipes and published numbers."""
