/** The threads of ingest in this run of a test file: those of TEST_INGEST_WORKERS, else none but main. */
export const testedWorkers = process.env.TEST_INGEST_WORKERS ?? '1'
