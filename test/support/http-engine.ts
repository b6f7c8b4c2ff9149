/** The HTTP engine of this run of a test file: the one that `on-node.ts` or TEST_HTTP_ENGINE says, else the default. */
export const testedEngine = process.env.TEST_HTTP_ENGINE === 'node' ? 'node' : 'auto'
