# Let a new primary have a synchronous standby; run by the image of PostgreSQL once, after it has made the database.
# Not options of the server: with them it would wait for the standby while it makes the database.
echo "host replication $POSTGRES_USER all scram-sha-256" >> "$PGDATA/pg_hba.conf"
echo "synchronous_standby_names = 'ANY 1 (standby)'" >> "$PGDATA/postgresql.conf"
