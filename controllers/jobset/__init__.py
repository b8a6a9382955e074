"""The JobSet controller: observe (from caches), plan (pure) and execute (API calls)."""
