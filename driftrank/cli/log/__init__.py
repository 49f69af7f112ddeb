"""Convert, check, summarise and generate click logs.

\b
driftrank log convert clicks.tsv.gz log.parquet
driftrank log convert sqlite:///driftrank.db log.parquet
driftrank log check log.parquet
driftrank log stats log.parquet --top 20
"""
