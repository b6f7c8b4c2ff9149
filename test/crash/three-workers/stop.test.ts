/** The same with three threads of ingest; `ingest-workers.test.ts` kills such a one. */
process.env.TEST_INGEST_WORKERS = '3'
await import('../stop.test.ts')
