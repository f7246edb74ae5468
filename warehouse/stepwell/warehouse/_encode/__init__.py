"""Steps as differences to earlier ones, and large parts by what they are."""
