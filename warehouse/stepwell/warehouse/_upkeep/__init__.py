"""What keeps a warehouse small and quick."""
