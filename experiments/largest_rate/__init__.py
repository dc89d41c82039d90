"""The largest arrival rate that a setting serves within a service level, found by trials."""
