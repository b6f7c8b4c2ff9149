/** Pages of the blocking message's records: free of schemas. */
export const blockingPage = { default: 20, max: 1_000 } as const
/** No message holds more records. */
export const maxRecords = 2 ** 31 - 1
