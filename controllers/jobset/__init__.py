"""One JobSet: `observe` (caches) -> `plan` (pure) -> `execute` (API calls)."""
