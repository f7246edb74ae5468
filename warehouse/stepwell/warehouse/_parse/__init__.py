"""Records of the spools, read: what each means, before anyone asks where it belongs."""
