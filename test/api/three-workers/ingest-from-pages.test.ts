/** The same with three threads of ingest. */
process.env.TEST_INGEST_WORKERS = '3'
await import('../ingest-from-pages.test.ts')
