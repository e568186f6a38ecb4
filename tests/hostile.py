"""Statements that want out of the locked connection: files, network, settings, memory, time."""

REFUSED = """
COPY rollouts TO '{out}/a.csv'
COPY (SELECT * FROM rollouts) TO '{out}/a.parquet' (FORMAT parquet)
COPY rollouts FROM '/etc/passwd'
EXPORT DATABASE '{out}/export'
IMPORT DATABASE '{out}/export'
ATTACH '{out}/b.db' AS b
ATTACH ':memory:' AS m
ATTACH '{gate}' AS g (TYPE parquet)
DETACH memory
USE memory
INSTALL httpfs
LOAD httpfs
FORCE INSTALL spatial FROM 'http://127.0.0.1:9/'
PRAGMA database_list
PRAGMA enable_profiling
PRAGMA table_info('rollouts')
SET enable_external_access = true
SET allowed_directories = ['/']
SET memory_limit = '64GB'
SET lock_configuration = false
SET VARIABLE x = 1
RESET lock_configuration
CREATE TABLE t AS SELECT 1
CREATE TEMP TABLE t (a INTEGER)
CREATE OR REPLACE VIEW rollouts AS SELECT 1
CREATE MACRO f(x) AS x
CREATE SECRET s (TYPE s3)
CREATE SCHEMA s
CREATE TYPE mood AS ENUM ('a')
CREATE SEQUENCE q
INSERT INTO versions VALUES (9)
UPDATE versions SET verdict = 'kept'
DELETE FROM steps
DROP TABLE versions
DROP VIEW rollouts
TRUNCATE steps
ALTER TABLE versions RENAME TO other
MERGE INTO versions USING steps ON true WHEN MATCHED THEN DELETE
WITH x AS (INSERT INTO versions (version) VALUES (9) RETURNING *) SELECT * FROM x
WITH x AS (DELETE FROM versions RETURNING *) SELECT * FROM x
WITH x AS (UPDATE versions SET parent = 1 RETURNING *) SELECT * FROM x
BEGIN
COMMIT
ROLLBACK
CHECKPOINT
VACUUM
ANALYZE
EXPLAIN ANALYZE SELECT 1
PREPARE p AS SELECT 1
EXECUTE p
CALL pragma_version()
SELECT 1; SELECT 2
SELECT 1; DROP TABLE versions
SELECT 1 /* ; */; DROP VIEW rollouts -- innocent
; COPY rollouts TO '{out}/c.csv'
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_blob('/etc/passwd')
SELECT * FROM read_json('/etc/passwd')
SELECT * FROM '/etc/passwd'
SELECT * FROM "/etc/passwd"
SELECT * FROM read_parquet('{gate}')
SELECT * FROM '{gate}'
SELECT * FROM parquet_metadata('{gate}')
SELECT * FROM parquet_schema('{gate}')
SELECT * FROM read_parquet('{run}/versions/*/gate/*.parquet')
SELECT * FROM read_parquet('{run}/versions/00/dev/../gate/part-00000.parquet')
SELECT * FROM read_parquet('{run}/base/gate/*.parquet')
SELECT * FROM read_parquet('{run}/twins/*/gate/*.parquet')
SELECT * FROM glob('{run}/**')
SELECT * FROM read_parquet('http://127.0.0.1:9/x.parquet')
SELECT * FROM 's3://bucket/x.parquet'
SELECT * FROM read_duckdb('{run}/ledger.db')
SELECT * FROM sniff_csv('/etc/passwd')
SELECT * FROM query('SELECT 1')
SELECT * FROM query_table('rollouts')
SELECT * FROM json_execute_serialized_sql('x')
SELECT getenv('HOME')
SELECT current_setting('allowed_paths')
SELECT getvariable('x')
SELECT nextval('q')
SELECT write_log('x')
SELECT sleep_ms(100000)
SELECT pg_sleep(100000)
SELECT random()
SELECT pg_catalog.current_setting('memory_limit')
SELECT system.main.current_setting('memory_limit')
SELECT current_setting('allowed_paths') OVER () FROM rollouts
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_databases()
SELECT * FROM duckdb_views()
SELECT * FROM duckdb_views
SELECT * FROM sqlite_master
SELECT * FROM information_schema.tables
SELECT * FROM pg_catalog.pg_class
SELECT * FROM pragma_storage_info('versions')
SELECT * FROM duckdb_secrets()
SELECT * FROM stored
SHOW TABLES
SHOW ALL TABLES
SELECT * FROM duckdb_views, (WITH duckdb_views AS (SELECT 1) SELECT 1)
SELECT * FROM "{gate}", (WITH "{gate}" AS (SELECT 1) SELECT 1)
SELECT * FROM (WITH stored AS (SELECT 1) SELECT 1), stored
SELECT (SELECT content FROM read_text('/etc/hostname'))
SELECT * FROM rollouts WHERE task_id IN (SELECT content FROM read_text('/etc/hostname'))
SELECT * FROM rollouts USING SAMPLE 3
SELECT $1
SELECT * FROM memory.main.versions AT (VERSION => 1)
SELECT * FROM secret_of_python
DESCRIBE SELECT * FROM read_csv('/etc/passwd')
SUMMARIZE '/etc/passwd'
PIVOT versions ON verdict USING count(*)
"""

STOPPED = """
SELECT count(*) FROM range(10000000) a, range(10000000) b
SELECT count(*) FROM rollouts a, rollouts b, rollouts c, rollouts d, rollouts e
WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r
WITH RECURSIVE r(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM r) SELECT max(length(s)) FROM r
SELECT sum(a.range) FROM range(1000000000000) a
SELECT list(range) FROM range(1000000000000)
SELECT string_agg(repeat('x', 1000), '') FROM range(1000000000)
SELECT length(repeat(repeat('x', 100000000), 30))
SELECT length(list_sort(range(100000000)))
SELECT len(list_transform(range(300000000), lambda x: x * 2))
SELECT repeat('x', 50000000)
SELECT DISTINCT a.range * b.range FROM range(100000) a, range(100000) b ORDER BY 1
SELECT count(*) FROM range(400000) a JOIN range(400000) b ON sin(a.range) < cos(b.range)
SELECT {parentheses}
"""


def statements(text: str, **places: object) -> list[str]:
    """One a line, with the places of a run filled in."""
    found = [line for line in text.strip().splitlines() if line]
    for name, place in places.items():
        found = [line.replace("{" + name + "}", str(place)) for line in found]
    return found
