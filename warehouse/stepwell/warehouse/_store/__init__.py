"""The store beside the tables: small objects, announcements, the lease, and who we are to it."""
