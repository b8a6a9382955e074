"""Exclusive placement: watches leaders, lifts the gates of their followers, evicts misplaced pods."""
