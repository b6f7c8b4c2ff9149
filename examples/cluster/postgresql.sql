-- Run once, as a superuser: psql -f postgresql.sql. pipectl creates its tables by itself.
CREATE ROLE pipectl LOGIN PASSWORD 'change-me-postgres' CONNECTION LIMIT 200;
CREATE DATABASE pipectl OWNER pipectl;
