"""Light curves of supernovae (S2.11)."""
