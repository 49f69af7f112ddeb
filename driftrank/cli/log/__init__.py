"""Click logs: convert them, check them, see what is in them.

\b
driftrank log convert clicks.tsv.gz log.parquet
driftrank log check log.parquet
driftrank log stats log.parquet --top 20
"""
