/** The same on node:http. */
process.env.TEST_HTTP_ENGINE = 'node'
await import('../http-errors.test.ts')
