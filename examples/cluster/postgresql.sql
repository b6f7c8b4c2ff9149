-- psql -f postgresql.sql as a superuser, once. pipectl makes its tables itself.
CREATE ROLE pipectl LOGIN PASSWORD 'change-me-postgres' CONNECTION LIMIT 200;
CREATE DATABASE pipectl OWNER pipectl;
