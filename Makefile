lock: ; .venv/bin/uv pip compile -q --universal --generate-hashes --no-header --no-annotate --no-emit-index-url --group dev --all-extras pyproject.toml -o requirements.lock
