/** The same on node:http. */
process.env.TEST_HTTP_ENGINE = 'node'
await import('../ingest-from-pages.test.ts')
